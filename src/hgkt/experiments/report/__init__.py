"""The report: one HTML page that needs nothing else, and the same as Markdown, tables, images."""

from hgkt.experiments.report.files import ReportFiles
from hgkt.experiments.report.writer import write_report

__all__ = ["ReportFiles", "write_report"]
