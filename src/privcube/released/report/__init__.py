"""A report for people to print: titles, tables, plots, method, guarantee, glossary. Zone: RELEASED."""
