"""Maps of queries and keys before scoring, one file each; a study uses the file's name.

>>> load("affine").Options(pairs=2).hidden
8
"""

from pathlib import Path

from ..variants import Folder

_folder = Folder("coupling", __name__, Path(__file__).parent)
names = _folder.names
load = _folder.load
