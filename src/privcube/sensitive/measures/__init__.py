"""Measures: numbers on their grids, and records divided between cells. Zone: SENSITIVE."""
