"""For all tests: how long an example of hypothesis takes says nothing on a machine that does other things too."""

from hypothesis import settings

from tests import low_descriptors

settings.register_profile("pando", deadline=None)
settings.load_profile("pando")
low_descriptors.keep()
