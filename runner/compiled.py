"""torch.compile for the training loss: the same graphs in every process, kept in a cache of theirs.

No torch at the top: whoever launches runs asks for the compiler before any of them starts.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from . import cache

if TYPE_CHECKING:
    from torch import Tensor

    from .model import Transformer

BACKEND = "inductor"
GRAPHS_PER_FUNCTION = 256  # where graphs break, each layer's part of one is a graph of its own


def require_compiler(*, on_gpu: bool) -> None:
    """Raise ``ValueError`` unless there is what torch.compile calls to make machine code."""
    if on_gpu:
        if find_spec("triton") is None:
            raise ValueError(
                "compile = true needs triton on a GPU, and it is not installed: install it, or set "
                "compile = false in [train]"
            )
        return
    wanted = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    if shutil.which(wanted) is None:
        raise ValueError(
            f"compile = true needs a C++ compiler, and there is no {wanted} here: install one, "
            "name it in CXX, or set compile = false in [train]"
        )


class CompiledLoss:
    """The loss of a model, compiled at its first call; of one shape of batch.

    Raises ``ValueError`` when made where nothing can compile, and when called if compiling fails.
    """

    def __init__(self, model: Transformer, device: str) -> None:
        import torch._dynamo
        import torch._inductor.config

        require_compiler(on_gpu=device.startswith("cuda"))
        _keep_files_in(cache.folder() / "compiler" / _machine())
        torch._dynamo.reset()  # what this process compiled before must not count for this run
        torch._dynamo.utils.counters.clear()
        torch._dynamo.config.recompile_limit = GRAPHS_PER_FUNCTION
        torch._dynamo.config.optimize_ddp = (
            False  # it cuts graphs, and cannot cut recomputed blocks
        )
        torch._inductor.config.compile_threads = 1  # as many runs at once as there are cores
        self._eager: Callable[..., Tensor] = model.loss
        self._compiled = torch.compile(model.loss, backend=BACKEND, dynamic=False)
        self._called = False

    def __call__(self, x_bt: Tensor, y_bt: Tensor) -> Tensor:
        """Return the mean nats of a batch."""
        if self._called:
            return self._compiled(x_bt, y_bt)
        import torch

        # Tables that a model makes at its first pass must not be made inside the first graph: a
        # resumed run would make them anew, in another graph than the one it was stopped in.
        with torch.no_grad():
            self._eager(x_bt, y_bt)
        try:
            loss = self._compiled(x_bt, y_bt)
        except torch._dynamo.exc.TorchDynamoException as error:
            said = " ".join(str(error).strip().split("\n\n")[0].split())
            raise ValueError(
                f"torch.compile failed ({said}): set compile = false in [train] of this arm"
            ) from error
        self._called = True
        return loss


def report() -> dict[str, int]:
    """Return what torch.compile says of this run: graphs made, and places where one had to end."""
    from torch._dynamo.utils import counters

    breaks = counters["graph_break"]
    return {"graphs": counters["stats"]["unique_graphs"], "graph_breaks": sum(breaks.values())}


def _keep_files_in(folder: Path) -> None:
    """Have sources, objects and kernels kept there, unless the user has chosen another place."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    # Some imports of torch write its own default into the environment: nobody has chosen that.
    if os.environ.get("TORCHINDUCTOR_CACHE_DIR") in (None, default_cache_dir()):
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
    os.environ.setdefault("TRITON_CACHE_DIR", str(folder / "triton"))


def _machine() -> str:
    """Return a name for machines that may share machine code: it is made for one processor."""
    import torch

    from .provenance import device_name  # which asks here for the backend

    parts = (torch.__version__, platform.python_version(), device_name())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
