"""reasoning-gym is installed without pycosat, which its zebra puzzles alone use.

pycosat comes as C sources only. Building it needs Python's headers; nothing else of ours does.
"""

import sys
from types import ModuleType

sys.modules.setdefault("pycosat", ModuleType("pycosat"))
