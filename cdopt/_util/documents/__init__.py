"""Text for people to open: HTML pages by templates, tables as CSV and Markdown.

Names and other text of unknown origin are made harmless here, for each kind of file in one place.
"""

from cdopt._util.documents.pages import check_page as check_page
from cdopt._util.documents.pages import folder_of_documents as folder_of_documents
from cdopt._util.documents.pages import render as render
from cdopt._util.documents.pages import save_page as save_page
from cdopt._util.documents.pages import source as source
from cdopt._util.documents.tables import csv_text as csv_text
from cdopt._util.documents.tables import markdown_cell as markdown_cell
from cdopt._util.documents.tables import markdown_table as markdown_table
