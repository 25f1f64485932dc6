import { languages } from '../../grading/languages/languages.ts'
import { classifyPath } from '../../grading/path-kinds.ts'

const NAMES = new Set(languages.flatMap(({ buildFiles }) => buildFiles))
const PATTERNS = languages.flatMap(({ buildFilePatterns }) => buildFilePatterns)
const TEST_FILES = languages.flatMap(({ readTestFiles }) => readTestFiles ?? [])
/** CI configurations show how the tests are run. */
const CI = /^(?:\.github\/workflows\/[^/]+\.ya?ml|\.gitlab-ci\.yml|\.travis\.yml|\.circleci\/config\.yml)$/
const DEPTH_MAX = 5

/** Selects files whose text is read: build and CI configuration, and tests, which show their runner. */
export function isBuildFile(path: string): boolean {
  const parts = path.split('/')
  const name = parts.at(-1) ?? ''
  if (parts.length > DEPTH_MAX || parts.includes('node_modules')) return false
  if (NAMES.has(name.toLowerCase()) || PATTERNS.some((pattern) => pattern.test(name)) || CI.test(path)) return true
  if (parts[0] === 'requirements' && name.endsWith('.txt')) return true
  return TEST_FILES.some((pattern) => pattern.test(name)) && classifyPath(path) === 'test'
}
