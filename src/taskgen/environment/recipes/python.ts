import { declaredBy, installableExtras, isPackage, requiredPython } from './python-project.ts'
import { pythonBase } from './python-version.ts'
import { DEPS, named, type RecipeOf, recipe, SYSTEM_PATH, word } from './recipe.ts'

const VENV = `${DEPS}/venv`
const DEVELOPMENT = 'dev|develop|development|test|tests|testing'
const REQUIREMENTS = new RegExp(
  `^(requirements\\.txt|requirements[-_](${DEVELOPMENT})\\.txt|(${DEVELOPMENT})[-_]requirements\\.txt|requirements/(base|main|${DEVELOPMENT})\\.txt)$`,
)
/** It installs the repository itself, which is not there yet. Of one line, so that empty ones cost nothing. */
const INSTALLS_ITSELF = /^[ \t]*(-e[ \t]+|--editable[ =])?\.{1,2}(\[|\/|\s|$)/m
const NATIVE = /\.(pyx|pxd|c|cc|cpp|rs|f90)$/

/** A virtual environment outside of the tree, with the package linked into it, so that a fix is seen at once. */
export const python: RecipeOf = (tree, runner) => {
  const files = [...tree.paths].filter((path) => REQUIREMENTS.test(path)).sort()
  const early = files.filter((path) => !INSTALLS_ITSELF.test(tree.texts.get(path) ?? ''))
  const late = files.filter((path) => !early.includes(path))
  const declared = [...declaredBy(tree), ...(runner === 'pytest' ? ['pytest'] : [])]
  const isNative = [...tree.paths].some((path) => NATIVE.test(path) && !/(^|\/)(tests?|docs?)\//.test(path))
  const extras = installableExtras(tree)
  const own = `.${extras.length === 0 ? '' : `[${extras.join(',')}]`}`
  const requirement = (path: string): string => `pip install -r ${word(path)}`
  return recipe({
    runner,
    base: pythonBase(tree, requiredPython(tree)),
    aptPackages: ['python3-venv', ...(isNative ? ['build-essential', 'python3-dev'] : [])],
    env: {
      VIRTUAL_ENV: VENV,
      PATH: `${VENV}/bin:${SYSTEM_PATH}`,
      ...{ PIP_NO_CACHE_DIR: '1', PIP_DISABLE_PIP_VERSION_CHECK: '1', PIP_ROOT_USER_ACTION: 'ignore' },
      PYTHONDONTWRITEBYTECODE: '1',
    },
    manifests:
      early.length === 0
        ? []
        : named(tree, /requirements[\w.-]*\.(txt|in)$|^constraints[\w.-]*\.txt$/i).concat(inFolder(tree.paths)),
    setup: [
      `python3 -m venv ${VENV}`,
      // Old packages ask for it without saying so.
      `pip install 'setuptools<81' wheel`,
      ...(declared.length === 0 ? [] : [`pip install ${[...new Set(declared)].map(word).join(' ')}`]),
      ...early.map(requirement),
    ],
    build: [...(isPackage(tree) ? [`pip install -e ${word(own)}`] : []), ...late.map(requirement)],
  })
}

const inFolder = (paths: ReadonlySet<string>): string[] =>
  [...paths]
    .filter(
      (path) => /^requirements\/[^/]+\.(txt|in)$/.test(path) && !/requirements[\w.-]*\.(txt|in)$/i.test(path.slice(13)),
    )
    .sort()
