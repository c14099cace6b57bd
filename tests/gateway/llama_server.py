"""Runs llama.cpp's own embedding server, which the wheel xllamacpp carries, until its standard input ends.

python llama_server.py WEIGHTS.gguf    prints the address
"""

from __future__ import annotations

import sys

import xllamacpp


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    params.port = 0  # Any free one.
    params.n_parallel = 1
    params.n_ctx = params.n_batch = params.n_ubatch = 256  # An input must fit into one batch.
    params.n_threads_http = 4
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.verbosity = 0
    params.warmup = False
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)  # noqa: T201
    sys.stdin.read()


main()
