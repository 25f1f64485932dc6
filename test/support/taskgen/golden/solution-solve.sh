#!/bin/bash
cd /workspace/repo && git apply --whitespace=nowarn /solution/fix.patch
