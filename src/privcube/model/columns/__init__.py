"""How the data writes what it says: spellings, dates, text files, and which records count. Zone: PUBLIC."""
