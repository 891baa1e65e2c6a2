"""Tables read from files: CSV and similar text, Excel, Parquet and JSON."""
