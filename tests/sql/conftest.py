from tests.side_by_side import oracle, pando

__all__ = ["oracle", "pando"]
