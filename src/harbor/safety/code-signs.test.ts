import { expect, test } from 'vitest'
import { estimateFiles } from '../../../test/support/harbor/strength.ts'

const estimate = (code: string) =>
  estimateFiles({
    'tests/test.sh': '#!/bin/bash\npytest /tests/test_it.py\necho $? > /logs/verifier/reward.txt\n',
    'tests/test_it.py': `${code}\n`,
  })

const LOADS = 'loads code'
const DATA = 'loads data that can contain code'

test.each([
  ['import logging.config', LOADS],
  ['from logging.config import fileConfig', LOADS],
  ['from logging import config', LOADS],
  ['import doctest', LOADS],
  ['monkeypatch.syspath_prepend("/app")', LOADS],
  ['pytest.main(["/app/tests"])', LOADS],
  ['with mock.patch(data["target"]): pass', LOADS],
  ['globals().update(data)', LOADS],
  ['case.__dict__.update(data)', LOADS],
  ['import chess.engine', 'starts programs'],
  ['archive.extractall(Path(__file__).parent)', 'writes into the folder of the tests'],
  ['from lxml import etree', 'reads files that the submission can name'],
  ['pd.read_xml("/app/x.xml")', 'reads files that the submission can name'],
  ['etree.XSLT(style)', 'reads files that the submission can name'],
  ['import yaml as y; y.load(text, Loader=y.Loader)', DATA],
  ['assert filecmp.cmp("/app/a", "/tests/a")', 'compares files by their size and time'],
  ['match, *rest = filecmp.cmpfiles("/app", "/tests", ["a"])', 'compares files by their size and time'],
  ['from filecmp import dircmp', 'compares files by their size and time'],
  ['shutil.copytree("/app/a/b", tmp_path / "b", symlinks=True)', 'moves links of the submission to another place'],
  ['shutil.copy("/app/a/b", "/tmp/b", follow_symlinks=False)', 'moves links of the submission to another place'],
  ['shutil.move("/app/a/b", "/tmp/b")', 'moves links of the submission to another place'],
  ['assert np.allclose(np.load("/app/a.npy"), EXPECTED)', 'compares arrays that can be empty'],
  ['assert (abs(np.load("/app/a.npy") - 3) < 0.1).all()', 'compares arrays that can be empty'],
  ['unittest.defaultTestLoader.discover("/app")', LOADS],
  ['unittest.TestLoader().loadTestsFromName("app")', LOADS],
  ['from sympy import sympify', LOADS],
  ['sympy.parsing.sympy_parser.parse_expr(text)', LOADS],
  ['frame.query(text)', LOADS],
  ['frame.query(f"a > {x}")', LOADS],
  ['frame.eval(text)', LOADS],
  ['import numexpr as ne', LOADS],
  ['import timeit', LOADS],
  ['import cProfile', LOADS],
  ['import profile; profile.run(text)', LOADS],
  ['import trace', LOADS],
  ['import code; code.InteractiveInterpreter().runsource(text)', LOADS],
  ['from code import InteractiveConsole', LOADS],
  ['@pytest.mark.skipif("open(1)", reason="x")', LOADS],
  ["@pytest.mark.xfail(condition=f'{x}')", LOADS],
  ['typing.get_type_hints(x)', LOADS],
  ['import zipimport', LOADS],
  ['from pydoc import locate', LOADS],
  ['pkgutil.resolve_name(text)', LOADS],
  ['getattr(__builtins__, name)(text)', LOADS],
  ['run = eval', LOADS],
  ['list(map(exec, lines))', LOADS],
  ['eval (text)', LOADS],
  ['import os as o; o.system(text)', 'starts programs'],
  ['from ruamel.yaml import YAML; YAML(typ="unsafe").load(x)', DATA],
  ['from yaml import load, Loader', DATA],
  ['skops.io.load(path, trusted=True)', DATA],
  ['import cloudpickle', DATA],
  ['numpy.load(path, allow_pickle = True)', DATA],
  ['etree.XMLParser(resolve_entities=True)', 'reads files that the submission can name'],
  ['tree.xinclude()', 'reads files that the submission can name'],
  ['data = json.load(open("/app/x.json")); open(data["file"])', 'reads files that the submission can name'],
  ['open(config["output"])', 'reads files that the submission can name'],
  ['Path("/app") / entry["path"]', 'reads files that the submission can name'],
  ['open(os.path.join("/app", row.get("name")))', 'reads files that the submission can name'],
  ['shutil.copy("/app/x.py", "/tests/x.py")', 'writes into the folder of the tests'],
  ['shutil.copytree("/app", Path(__file__).parent / "app")', 'writes into the folder of the tests'],
  ['open("/tests/x.py", "w").write(text)', 'writes into the folder of the tests'],
  ['Path("/tests/x.py").write_text(text)', 'writes into the folder of the tests'],
])('tests in Python with %s are weak because the file %s', async (code, reason) => {
  expect(await estimate(code)).toEqual({ strength: 'weak', reason: `tests/test_it.py ${reason}.` })
})

test.each([
  ['pytest.ini', '[pytest]\npythonpath = /app'],
  ['pyproject.toml', '[tool.pytest.ini_options]\npythonpath = ["../app"]'],
  ['tox.ini', '[pytest]\naddopts = -p app.plugin'],
])('settings of pytest that load code are weak: %s', async (name, text) => {
  const files = { 'tests/test.sh': '#!/bin/bash\npytest /tests/test_it.py\necho $? > /logs/verifier/reward.txt\n' }
  const found = await estimateFiles({ ...files, 'tests/test_it.py': 'pass\n', [`tests/${name}`]: `${text}\n` })
  expect(found).toEqual({ strength: 'weak', reason: `tests/${name} makes pytest load code.` })
})

test.each([
  ['import torch', 'torch'],
  ['import json, requests', 'requests'],
  ['import torch; import json', 'torch'],
  ['import json as j; import dask.dataframe as dd', 'dask.dataframe'],
  ['def test_it():\n    from sklearn.datasets import load_files', 'sklearn.datasets'],
  ['if True: import app', 'app'],
  ['from urllib import request', 'urllib'],
  ['import logging.handlers', 'logging.handlers'],
])('tests in Python with %s are weak because %s is unknown', async (code, name) => {
  const reason = `tests/test_it.py imports ${name}, which is not known to only read data.`
  expect(await estimate(code)).toEqual({ strength: 'weak', reason })
})

test.each([
  'import logging; logging.basicConfig()',
  'from . import test_it; import test_it',
  'import json, os.path as p  # import torch\nfrom collections.abc import Mapping\nfrom urllib.parse import urlsplit',
  'important = {"import": 1}; text = "import torch"',
  'frame.query("a > 1")',
  'import ast; ast.literal_eval("1")',
  'import platform; platform.system()',
  '@pytest.mark.skipif(sys.platform == "win32", reason="x")',
  'import unittest; unittest.main()',
  'etree.XMLParser(resolve_entities=False)',
  'open("/tests/expected.json"); shutil.copy("/app/x", "/tmp/x")',
  'open(os.environ["X"]); open(EXPECTED["file"]); open(case["file"]); ratio = total / row["count"]',
  'import yaml; yaml.safe_load(open("/app/x.yaml"))',
  'got = np.load("/app/a.npy"); assert got.shape == (2, 2) and np.allclose(got, EXPECTED)',
  'shutil.copytree("/app/a", "/tmp/a")',
])('tests in Python with %s only read', async (code) => {
  expect(await estimate(code)).toMatchObject({ strength: 'standard' })
})

const NAN = 'accepts NaN of the submission as a number within bounds'

test.each([
  ['const data = new Function("return " + text)()', LOADS],
  ['const data = eval(text)', LOADS],
  ["const { readFileSync } = process.getBuiltinModule('fs')", LOADS],
  ['if (Math.abs(data.total - 60.5) > 0.01) process.exit(1)', NAN],
  ['if (Math.abs(data.total - 60.5) >= 0.01) process.exit(1)', NAN],
])('tests in JavaScript with %s are weak', async (code, reason) => {
  const files = {
    'tests/test.sh': '#!/bin/bash\nnode /tests/it.js < /app/x\necho $? > /logs/verifier/reward.txt\n',
    'tests/it.js': `${code}\n`,
  }
  expect(await estimateFiles(files)).toEqual({ strength: 'weak', reason: `tests/it.js ${reason}.` })
})
