"""Modules that readers and writers share: options, types, conditions, HTTP."""
