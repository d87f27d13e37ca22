"""Queries and expressions: from text to trees and back."""
