import type { TreeFacts } from '../suite.ts'
import { findRequiredPython } from './python-project.ts'
import { findFreezeDay, listCiVersions } from './recipe.ts'

/**
 * A base image, the minor version of its Python 3, and the day from which most packages support that version.
 * `hasDebianPython`: this Python is a package of Debian, so that `python3-dev` has its headers.
 */
export type PythonBase = { minor: number; base: string; supportedFrom: string; hasDebianPython: boolean }

/** The newest base image. */
const NEWEST: PythonBase = { minor: 13, base: 'debian:trixie-slim', supportedFrom: '2025-04-01', hasDebianPython: true }
const BASES: readonly PythonBase[] = [
  NEWEST,
  { minor: 11, base: 'debian:bookworm-slim', supportedFrom: '2023-04-01', hasDebianPython: true },
]

/** Official image of the last Python before 3.10, which removed what many packages of earlier years use. */
export const OLDER_PYTHON_IMAGE = 'python:3.9-slim-bookworm'
/** Used for trees from September 2022 on: uv cannot install packages in editable mode with an older setuptools. */
const OLDER: PythonBase = { minor: 9, base: OLDER_PYTHON_IMAGE, supportedFrom: '2022-09-01', hasDebianPython: false }

/**
 * Returns the base image whose Python the tree was most likely tested with. Images whose Python the tree's range rejects
 * are excluded. Of the others, those supported at the time of the commit are used, or else the oldest; among several, one
 * that the CI files name is preferred.
 */
export function chooseBase(tree: TreeFacts): PythonBase {
  const accepted = BASES.filter(({ minor }) => acceptsMinor(findPythonRange(tree), minor))
  const supported = accepted.filter((base) => isSupported(base, tree))
  const fitting = supported.length === 0 ? accepted.slice(-1) : supported
  const tested = new Set(listCiVersions(tree, 'python(?:-version)?'))
  return fitting.find(({ minor }) => tested.has(`3.${minor}`)) ?? fitting[0] ?? NEWEST
}

const isSupported = ({ supportedFrom }: PythonBase, tree: TreeFacts): boolean => {
  const freezeDay = findFreezeDay(tree)
  return freezeDay === undefined || supportedFrom <= freezeDay
}

function findPythonRange(tree: TreeFacts): string {
  const named = /^(?:cpython-?)?(3\.\d+)/m.exec(tree.texts.get('.python-version') ?? '')?.[1]
  return named ? `==${named}` : (findRequiredPython(tree) ?? '')
}

/**
 * Returns an older Python for a tree that no Python of the base images fits, because each is newer than the tree or outside
 * of its range. What such a tree locks, its test runner included, may not run on a newer Python.
 */
export function findOlderBase(tree: TreeFacts): PythonBase | undefined {
  const range = findPythonRange(tree)
  const isFitted = BASES.some((base) => acceptsMinor(range, base.minor) && isSupported(base, tree))
  return isFitted || !acceptsMinor(range, OLDER.minor) ? undefined : OLDER
}

/** Returns the later of the freeze day and the day from which packages support the Python of the image. */
export function findIndexDay(tree: TreeFacts, { supportedFrom }: PythonBase): string | undefined {
  const freezeDay = findFreezeDay(tree)
  return freezeDay !== undefined && freezeDay < supportedFrom ? supportedFrom : freezeDay
}

const VERSION_CLAUSE = /^(\^|~=|~|[<>=!]=|<|>)?\s*3\.(\d+)(?:\.(\d+|\*))?$/

/** Compares the minor version of a Python with that of a clause. */
type VersionTest = (minor: number, required: number, patch: string | undefined) => boolean

const isAtLeast: VersionTest = (minor, required) => minor >= required
const isSameMinor: VersionTest = (minor, required) => minor === required

const OPERATORS: Readonly<Record<string, VersionTest>> = {
  '>=': isAtLeast,
  '>': isAtLeast,
  '^': isAtLeast,
  '==': isSameMinor,
  '~': isSameMinor,
  '<=': (minor, required) => minor <= required,
  '<': (minor, required, patch = '0') => (patch === '0' ? minor < required : minor <= required),
  '!=': (minor, required, patch) => patch !== '*' || minor !== required,
  '~=': (minor, required, patch) => (patch === undefined ? minor >= required : minor === required),
}

/** Tests a minor version against a range such as `>=3.9,<3.13`. Clauses that cannot be parsed are ignored. */
const acceptsMinor = (range: string, minor: number): boolean =>
  range.split(',').every((clause) => {
    const [, operator = '==', required, patch] = VERSION_CLAUSE.exec(clause.trim()) ?? []
    return required === undefined || OPERATORS[operator]?.(minor, Number(required), patch)
  })
