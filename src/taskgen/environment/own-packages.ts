import { languages } from '../../grading/languages/languages.ts'
import type { TreeFacts } from '../../grading/suite.ts'

const PACKAGES_MAX = 200

/**
 * Lists the published names of the repository as `language:name`. An installed copy in an image may contain the fix.
 */
export function listOwnPackages(tree: TreeFacts): string[] {
  const names = languages.flatMap(({ id, packageNames }) =>
    packageNames(tree)
      .filter((name) => name !== '')
      .map((name) => `${id}:${name}`),
  )
  return [...new Set(names)].slice(0, PACKAGES_MAX)
}
