"""The files shipped with Podium: tools, prices, a corpus, tasks."""

from bundled_files.folder import BundledFilesMissing, bundled_folder

__all__ = ["BundledFilesMissing", "bundled_folder"]
