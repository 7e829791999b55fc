"""Text for people to open: HTML pages by templates, tables as CSV and Markdown.

Names and other text of unknown origin are made harmless here, for each kind of file in one place.
"""

from cdopt.documents.pages import check_page, folder_of_documents, render, save_page, source
from cdopt.documents.tables import csv_text, markdown_cell, markdown_table

__all__ = [
    "check_page",
    "csv_text",
    "folder_of_documents",
    "markdown_cell",
    "markdown_table",
    "render",
    "save_page",
    "source",
]
