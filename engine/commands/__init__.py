"""The subcommands of ``pando``, one file each; each module has one ``command``."""
