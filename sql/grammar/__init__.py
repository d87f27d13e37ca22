"""ClickHouse's grammar: from text to trees and statements. Nothing is resolved or computed here."""
