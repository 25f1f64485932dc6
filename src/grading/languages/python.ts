import { pytest, unittest } from '../runners/python.ts'
import type { TreeFacts } from '../suite.ts'
import { escapePattern, type LanguageEcosystem, type StubbedName, type StubValue } from './language.ts'
import { installableExtras, isPackage, listRequirements, publishedNames, requiredPython } from './python-project.ts'
import { DEPS, type EnvRecipe, listFilesNamed, quoteWord, recipe, SYSTEM_PATH } from './recipe.ts'

const VENV = `${DEPS}/venv`
const DEVELOPMENT = 'dev|develop|development|test|tests|testing'
const REQUIREMENTS = new RegExp(
  `^(requirements\\.txt|requirements[-_](${DEVELOPMENT})\\.txt|(${DEVELOPMENT})[-_]requirements\\.txt|requirements/(base|main|${DEVELOPMENT})\\.txt)$`,
)
/** Matches a requirement on the repository itself, which is not copied yet. Bounded to one line to stay linear. */
const INSTALLS_ITSELF = /^[ \t]*(-e[ \t]+|--editable[ =])?\.{1,2}(\[|\/|\s|$)/m
const NATIVE = /\.(pyx|pxd|c|cc|cpp|rs|f90)$/

/**
 * Creates a virtual environment outside of the tree and installs the package in editable mode, so that a fix takes
 * effect.
 */
function buildRecipe(tree: TreeFacts, runner: string): EnvRecipe {
  const files = [...tree.paths].filter((path) => REQUIREMENTS.test(path)).sort()
  const early = files.filter((path) => !INSTALLS_ITSELF.test(tree.texts.get(path) ?? ''))
  const late = files.filter((path) => !early.includes(path))
  const declared = [...listRequirements(tree), ...(runner === 'pytest' ? ['pytest'] : [])]
  const isNative = [...tree.paths].some((path) => NATIVE.test(path) && !/(^|\/)(tests?|docs?)\//.test(path))
  const extras = installableExtras(tree)
  const own = `.${extras.length === 0 ? '' : `[${extras.join(',')}]`}`
  const requirement = (path: string): string => `pip install -r ${quoteWord(path)}`
  return recipe({
    runner,
    base: findBase(tree, requiredPython(tree)),
    aptPackages: ['python3-venv', ...(isNative ? ['build-essential', 'python3-dev'] : [])],
    env: {
      VIRTUAL_ENV: VENV,
      PATH: `${VENV}/bin:${SYSTEM_PATH}`,
      PIP_NO_CACHE_DIR: '1',
      PIP_DISABLE_PIP_VERSION_CHECK: '1',
      PIP_ROOT_USER_ACTION: 'ignore',
      PYTHONDONTWRITEBYTECODE: '1',
    },
    manifests:
      early.length === 0
        ? []
        : listFilesNamed(tree, /requirements[\w.-]*\.(txt|in)$|^constraints[\w.-]*\.txt$/i).concat(
            listRequirementFolder(tree.paths),
          ),
    setup: [
      `python3 -m venv ${VENV}`,
      // Old packages need setuptools without declaring it.
      `pip install 'setuptools<81' wheel`,
      ...(declared.length === 0 ? [] : [`pip install ${[...new Set(declared)].map(quoteWord).join(' ')}`]),
      ...early.map(requirement),
    ],
    build: [...(isPackage(tree) ? [`pip install -e ${quoteWord(own)}`] : []), ...late.map(requirement)],
  })
}

const listRequirementFolder = (paths: ReadonlySet<string>): string[] =>
  [...paths]
    .filter(
      (path) => /^requirements\/[^/]+\.(txt|in)$/.test(path) && !/requirements[\w.-]*\.(txt|in)$/i.test(path.slice(13)),
    )
    .sort()

/** Base images and the minor version of their Python 3; the default comes first. */
const BASES = [
  { minor: 13, base: 'debian:trixie-slim' },
  { minor: 11, base: 'debian:bookworm-slim' },
] as const

/** Returns the first base image with an accepted Python, or the default where none is accepted. */
function findBase({ texts }: TreeFacts, required: string | undefined): string {
  const named = /^(?:cpython-?)?(3\.\d+)/m.exec(texts.get('.python-version') ?? '')?.[1]
  const wanted = named ? `==${named}` : (required ?? '')
  return (BASES.find(({ minor }) => accepts(wanted, minor)) ?? BASES[0]).base
}

const CLAUSE = /^(\^|~=|~|[<>=!]=|<|>)?\s*3\.(\d+)(?:\.(\d+|\*))?$/

type VersionTest = (minor: number, line: number, patch: string | undefined) => boolean

const isAtLeast: VersionTest = (minor, line) => minor >= line
const isSameMinor: VersionTest = (minor, line) => minor === line

const SIGNS: Readonly<Record<string, VersionTest>> = {
  '>=': isAtLeast,
  '>': isAtLeast,
  '^': isAtLeast,
  '==': isSameMinor,
  '~': isSameMinor,
  '<=': (minor, line) => minor <= line,
  '<': (minor, line, patch = '0') => (patch === '0' ? minor < line : minor <= line),
  '!=': (minor, line, patch) => patch !== '*' || minor !== line,
  '~=': (minor, line, patch) => (patch === undefined ? minor >= line : minor === line),
}

/** Tests a minor version against a range such as `>=3.9,<3.13`. Clauses that cannot be parsed are ignored. */
const accepts = (range: string, minor: number): boolean =>
  range.split(',').every((clause) => {
    const [, sign = '==', line, patch] = CLAUSE.exec(clause.trim()) ?? []
    return line === undefined || SIGNS[sign]?.(minor, Number(line), patch)
  })

/** Defines functions in the module, and methods on every class of the module. */
function writeStubs(names: readonly StubbedName[], value: StubValue): string {
  const result = { nothing: 'None', true: 'True', false: 'False' }[value]
  return `for _name in ${JSON.stringify(names.map(({ name }) => name))}:
    _stub = lambda *_a, **_k: ${result}
    for _value in list(globals().values()):
        if isinstance(_value, type) and _value.__module__ == __name__ and not hasattr(_value, _name):
            setattr(_value, _name, _stub)
    globals().setdefault(_name, _stub)`
}

const ARTEFACTS = ['__pycache__/', '*.egg-info/', '.eggs/', '.pytest_cache/']

export const python: LanguageEcosystem = {
  id: 'python',
  sources: [
    {
      name: 'python',
      extensions: ['py', 'pyx', 'pyi'],
      comments: 'hash',
      singleQuote: 'string',
      hasInlineTests: false,
    },
  ],
  tests: {
    names: [/^test_.+\.py$/, /_tests?\.py$/, /^tests?\.py$/],
    support: [/^conftest\.py$/],
    extensions: ['.py'],
  },
  dependencyFiles: ['poetry.lock', 'uv.lock', 'pdm.lock', 'pipfile', 'pipfile.lock'],
  buildFiles: [
    'pyproject.toml',
    'setup.py',
    'setup.cfg',
    'tox.ini',
    'noxfile.py',
    'pytest.ini',
    'conftest.py',
    'manage.py',
    '.python-version',
    'pipfile',
  ],
  buildFilePatterns: [/^(?:[\w-]+-)?requirements[\w.-]*\.(?:txt|in)$/i],
  readTestFiles: /\.py$/,
  packageNames: publishedNames,
  publishedCopy: (name) =>
    `/(?i:${name
      .split(/[-_.]+/)
      .map(escapePattern)
      .join('[-_.]+')})-[^-/]+\\.(?:dist|egg)-info$`,
  runners: [
    {
      runner: pytest,
      buildRecipe: (tree) => buildRecipe(tree, pytest.id),
      artefacts: ARTEFACTS,
      buildArgs: [],
    },
    {
      runner: unittest,
      buildRecipe: (tree) => buildRecipe(tree, unittest.id),
      artefacts: ARTEFACTS,
      buildArgs: [],
    },
  ],
  hidesModules: true,
  testConfiguration: ['pytest[.]ini', 'tox[.]ini', 'setup[.]cfg', 'conftest[.]py'],
  stubs: [{ files: /\.py$/, when: 'always', write: writeStubs }],
}
