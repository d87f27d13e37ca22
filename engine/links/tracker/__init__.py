"""The tracker at work: one server of a source observes the targets and asks for modes of links."""
