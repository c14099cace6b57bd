"""How fast the decision server is, as ratios against named peers, all in one run.

    direct, shared   decisions per second on one 1,500-token state with 21 yes/no questions (embedded 0.5b, CPU), on
                     llama.cpp and on torch in FP32 from the same file
    prefill          tokens per second of the shared call's prefill: llamacpp against llama.cpp's own server in the same
                     wheel on as many tokens of the same file, torch against a plain matrix product on the same cores
    HTTP             latency of POST /decide over a bare call of the scorer, with the fake engine
    memory           largest resident set of the scoring process

Prints a Markdown report. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import click
import httpx2

from steelyard.decide.acceptance.probes import CRITERIA, rows_over
from steelyard.decide.domain.direct import score_direct
from steelyard.decide.domain.shared import score_shared
from steelyard.decide.engines.fake import FakeEngine
from steelyard.decide.engines.llama_loading import LlamaSource
from steelyard.decide.engines.llamacpp import LlamaCppEngine
from steelyard.models import catalogue, store

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.decide.domain.ports import Engine
    from steelyard.decide.domain.rows import Row
    from steelyard.decide.engines.torch_loading import TorchSource

MODEL = "qwen2.5-coder-0.5b"
STATE_TOKENS = 1500
REPEATS = 3
HTTP_REQUESTS = 600
CLIENTS = (1, 8, 32)
MAX_TOKENS = 4096
VOCABULARY, WIDTH, INNER_WIDTH = 151936, 896, 4864  # Of the model.


def main() -> None:
    """Run one part, or all of them with the models' parts in processes of their own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=sorted(PARTS), help="run this part only")
    parser.add_argument("--kept", type=Path, help="folder for what one part leaves to the next (a temporary one)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        kept = arguments.kept or Path(temporary)
        if arguments.part:
            print(json.dumps(PARTS[arguments.part](kept)))
        else:
            print(report(run_parts(kept)))


def run_parts(kept: Path) -> dict[str, dict[str, float]]:
    """Return every part's figures, each measured in a process of its own, so that the peak of its memory is its own."""
    results: dict[str, dict[str, float]] = {}
    with click.progressbar(list(PARTS), label="Benchmarks", file=sys.stderr, item_show_func=str) as names:
        for name in names:
            command = [sys.executable, __file__, "--part", name, "--kept", str(kept)]
            results[name] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return results


def llamacpp(_kept: Path) -> dict[str, float]:
    """Measure both scorers on llama.cpp."""
    source = LlamaSource(path=weights_path(), name=MODEL, device="cpu", max_tokens=MAX_TOKENS)
    return scorers(lambda: LlamaCppEngine(source))


def dequantising(kept: Path) -> dict[str, float]:
    """Measure the first load of the file by torch, which leaves in *kept* what the next part loads."""
    from steelyard.decide.engines import torch_loading  # noqa: PLC0415  # In this part's process only.

    return {"load_s": seconds(lambda: torch_loading.load(torch_source(kept)))}


def torch(kept: Path) -> dict[str, float]:
    """Measure both scorers on torch in FP32, and the matrix product that its prefill is held against."""
    from steelyard.decide.engines import torch_engine  # noqa: PLC0415  # In this part's process only.

    figures = scorers(lambda: torch_engine.TorchEngine(torch_source(kept)))
    # Of every parameter but the two tables of the vocabulary, each token takes one multiplication and one addition
    # (Kaplan et al., 2020, section 2.1); the output head runs for one token only.
    parameters = next(kept.glob("*/model.safetensors")).stat().st_size / 4 - 2 * VOCABULARY * WIDTH
    return figures | {
        "prefill_gflops": 2 * parameters * figures["prefill_tokens_per_s"] / 1e9,
        "product_gflops": product_gflops(),
    }


def torch_source(kept: Path) -> TorchSource:
    """Return the file as torch loads it, dequantised into *kept*."""
    from steelyard.decide.engines import torch_loading  # noqa: PLC0415  # In its parts' processes only.

    return torch_loading.TorchSource(
        name=MODEL, path=weights_path(), device="cpu", max_tokens=MAX_TOKENS, converted_dir=kept
    )


def product_gflops() -> float:
    """Return the billions of operations per second of one FP32 matrix product, as wide as the model's MLP."""
    import torch as native  # noqa: PLC0415  # In this part's process only.

    left, right = native.rand(STATE_TOKENS, WIDTH), native.rand(WIDTH, INNER_WIDTH)
    took = [seconds(lambda: native.mm(left, right)) for _ in range(20)]
    return 2 * STATE_TOKENS * WIDTH * INNER_WIDTH / statistics.median(took) / 1e9


def scorers(start: Callable[[], Engine]) -> dict[str, float]:
    """Measure both scorers on the engine that *start* loads."""
    before_mib = peak_mib()
    started = time.perf_counter()
    engine = start()
    load_s = time.perf_counter() - started
    rows = rows_over(state_of(engine, STATE_TOKENS))
    direct_s = median_seconds(lambda: [score_direct(row, engine=engine, max_tokens=MAX_TOKENS) for row in rows[:3]])
    timings = [score_shared(rows, engine=engine, max_tokens=MAX_TOKENS)[1] for _ in range(REPEATS)]
    timing = sorted(timings, key=lambda one: one["total_seconds"])[REPEATS // 2]
    return {
        "load_s": load_s,
        "direct_per_s": 3 / direct_s,
        "shared_per_s": CRITERIA / timing["total_seconds"],
        "shared_total_s": timing["total_seconds"],
        "prefix_tokens": timing["prefix_tokens"],
        "suffix_tokens": timing["true_suffix_tokens"],
        "prefill_tokens_per_s": timing["prefix_tokens"] / timing["prefill_seconds"],
        "suffix_tokens_per_s": timing["true_suffix_tokens"] / timing["suffix_forward_seconds"],
        "resident_mib": peak_mib() - before_mib,
        "file_mib": weights_path().stat().st_size / 2**20,
    }


def llama_server(_kept: Path) -> dict[str, float]:
    """Measure prompt processing of llama.cpp's own server, from its own timings, on random tokens."""
    import xllamacpp  # noqa: PLC0415  # The peer is loaded in this part's process only.

    params = xllamacpp.CommonParams()
    params.model.path = str(weights_path())
    params.n_ctx = 2 * MAX_TOKENS
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = len(os.sched_getaffinity(0))
    params.verbosity = 0
    server = xllamacpp.Server(params)
    speeds = []
    for repeat in range(REPEATS):
        prompt = list(range(1000 + repeat, 1000 + repeat + STATE_TOKENS))
        answer = server.handle_completions({"prompt": prompt, "n_predict": 1, "cache_prompt": False})
        speeds.append(answer["timings"]["prompt_per_second"])
    return {"prefill_tokens_per_s": statistics.median(speeds)}


def http(_kept: Path) -> dict[str, float]:
    """Measure POST /decide with the fake engine against bare calls of the scorer in this process."""
    engine = FakeEngine()
    row = rows_over("The parcel was handed over on Monday.")[0]
    bare = [seconds(lambda: score_direct(row, engine=engine, max_tokens=MAX_TOKENS)) for _ in range(HTTP_REQUESTS)]
    figures = {"bare_p50_ms": 1000 * quantile(bare, 50), "bare_p99_ms": 1000 * quantile(bare, 99)}
    token = secrets.token_hex(32)
    server, url = start_fake_server(token)
    try:
        for clients in CLIENTS:
            latencies, took = asyncio.run(load(url, token, row, clients))
            figures |= {
                f"p50_ms_{clients}": 1000 * quantile(latencies, 50),
                f"p99_ms_{clients}": 1000 * quantile(latencies, 99),
                f"per_s_{clients}": len(latencies) / took,
            }
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    return figures


PARTS: dict[str, Callable[[Path], dict[str, float]]] = {
    "llamacpp": llamacpp,
    "dequantising": dequantising,
    "torch": torch,
    "llama_server": llama_server,
    "http": http,
}


def weights_path() -> Path:
    """Return where the weights lie; leaves where they are not pulled."""
    path = store.path_of(catalogue.require(MODEL).main, store.models_dir(os.environ))
    return path if path.is_file() else sys.exit(f"pull the weights first: steelyard models pull {MODEL}")


def state_of(engine: Engine, tokens: int) -> str:
    """Return an English text of about *tokens* tokens."""
    sentences = (
        f"On day {day} the depot sent {7 * day % 40} parcels and took {3 * day % 11} back. " for day in range(999)
    )
    text = ""
    while len(engine.tokenizer.encode(text)) < tokens:
        text += next(sentences)
    return text


def start_fake_server(token: str) -> tuple[subprocess.Popen[str], str]:
    """Start a server on the fake engine and return it with its address."""
    command = [
        str(Path(sys.executable).with_name("semif-serve")),
        "--model",
        "fake",
        "--port",
        "0",
        "--max-queue",
        "64",
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SEMIF_")}
    server = subprocess.Popen(command, env=environment | {"SEMIF_API_TOKEN": token}, stderr=subprocess.PIPE, text=True)
    log = server.stderr or ()
    for line in log:
        if found := re.search(r"Serving .* on (http://\S+)", line):
            # A full pipe would block the server, so the rest of its log is read and dropped.
            threading.Thread(target=deque, args=(log, 0), daemon=True).start()
            return server, found[1]
    sys.exit("the server did not start")


async def load(url: str, token: str, row: Row, clients: int) -> tuple[list[float], float]:
    """Post the row from *clients* connections at once; return every latency and the seconds that all took."""
    options = [{"id": option.id, "description": option.description} for option in row.options]
    body = {"id": row.id, "state": row.state, "question": row.question, "options": options}
    latencies: list[float] = []

    async def one(client: httpx2.AsyncClient) -> None:
        for _ in range(HTTP_REQUESTS // clients):
            started = time.perf_counter()
            response = await client.post("/decide", json=body)
            latencies.append(time.perf_counter() - started)
            response.raise_for_status()

    started = time.perf_counter()
    async with httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
        await asyncio.gather(*(one(client) for _ in range(clients)))
    return latencies, time.perf_counter() - started


def report(results: dict[str, dict[str, float]]) -> str:
    """Return the Markdown report."""
    web = results["http"]
    lines = [
        (
            f"# {MODEL}, {os.cpu_count()} cores, prefix of {results['torch']['prefix_tokens']:.0f} tokens, "
            f"{CRITERIA} questions\n"
        ),
        *scorer_table(results),
        (
            f"\nPOST /decide with the fake engine; the bare scorer takes p50 {web['bare_p50_ms']:.2f} ms, "
            f"p99 {web['bare_p99_ms']:.2f} ms\n"
        ),
        "| clients | p50 ms | p99 ms | requests per second | p50 over the bare scorer |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {n} | {web[f'p50_ms_{n}']:.2f} | {web[f'p99_ms_{n}']:.2f} | {web[f'per_s_{n}']:.0f} | "
        f"{web[f'p50_ms_{n}'] / web['bare_p50_ms']:.1f} |"
        for n in CLIENTS
    ]
    return "\n".join(lines)


def scorer_table(results: dict[str, dict[str, float]]) -> list[str]:
    """Return the lines that hold both engines against each other and each against its peer."""
    figures = {
        "direct decisions per second": ("direct_per_s", ".3f"),
        "shared decisions per second": ("shared_per_s", ".3f"),
        "prefill, tokens per second": ("prefill_tokens_per_s", ".0f"),
        "suffixes, tokens per second": ("suffix_tokens_per_s", ".0f"),
        "load, SHA-256 included, seconds": ("load_s", ".1f"),
        "resident memory, MiB": ("resident_mib", ".0f"),
    }
    one, other = results["llamacpp"], results["torch"]
    lines = ["| figure | llama.cpp, Q4_K_M | torch, FP32 | torch over llama.cpp |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {name} | {one[key]:{form}} | {other[key]:{form}} | {other[key] / one[key]:.2f} |"
        for name, (key, form) in figures.items()
    ]
    shared = " | ".join(f"{engine['shared_per_s'] / engine['direct_per_s']:.1f}" for engine in (one, other))
    peer = results["llama_server"]["prefill_tokens_per_s"]
    return [
        *lines,
        f"| shared over direct | {shared} | |",
        (
            f"| resident memory over the file's size | {one['resident_mib'] / one['file_mib']:.2f} | "
            f"{other['resident_mib'] / other['file_mib']:.2f} | |\n"
        ),
        (
            f"- llama.cpp's prefill over that of llama.cpp's own server ({peer:.0f} tokens per second): "
            f"{one['prefill_tokens_per_s'] / peer:.2f}"
        ),
        (
            f"- torch's prefill over a plain FP32 matrix product ({other['prefill_gflops']:.0f} of "
            f"{other['product_gflops']:.0f} GFLOP/s): {other['prefill_gflops'] / other['product_gflops']:.2f}"
        ),
        (
            f"- the first load of a .gguf file by torch, which dequantises it: "
            f"{results['dequantising']['load_s']:.0f} seconds"
        ),
    ]


def median_seconds(work: Callable[[], object]) -> float:
    """Return the median seconds of a few runs of *work*."""
    return statistics.median(seconds(work) for _ in range(REPEATS))


def seconds(work: Callable[[], object]) -> float:
    """Return how long *work* takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def quantile(values: list[float], percent: int) -> float:
    """Return the given percentile of *values*."""
    return statistics.quantiles(values, n=100)[percent - 1]


def peak_mib() -> float:
    """Return the largest resident set of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
