"""What both sides of the connector agree on: options, types, conditions, HTTP."""
