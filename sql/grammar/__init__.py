"""ClickHouse's grammar: turns text into trees and statements. Resolves no names and computes nothing."""
