"""Queries and expressions: parsing text to trees and formatting trees as text."""
