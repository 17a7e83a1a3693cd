"""The only code that sees rows or exact counts. Zone: SENSITIVE."""
