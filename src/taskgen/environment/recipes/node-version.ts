import { coerce, intersects, satisfies, validRange } from 'semver'
import type { TreeFacts } from '../../../grading/suite.ts'

/** Of the base. Nothing is installed where it will do. */
const OF_DEBIAN = '20.19.2'

/** Lines of Node in the order in which they are tried, and to each a npm that runs on it. */
const LINES = Object.entries({ v22: 10, v24: 11, v26: 11, v20: 10, v18: 10, v16: 8 })

const NAMED: Readonly<Record<string, string>> = {
  ...{ 'lts/hydrogen': '18', 'lts/iron': '20', 'lts/jod': '22', 'lts/krypton': '24' },
}

/** The line of shell that brings the Node which a tree asks for, from the registry of npm. */
export function installNode(tree: TreeFacts, engines: string | undefined): string[] {
  const wanted = lineOf(tree) ?? validRange(engines ?? '*')
  if (!wanted || satisfies(OF_DEBIAN, wanted)) return []
  const [line, npm] = LINES.find(([name]) => intersects(wanted, name)) ?? []
  // Debian's npm runs on Debian's Node alone, so that both are replaced. The shell has to forget where they were.
  return line ? [`npm install -g npm@${npm} node-linux-$(node -p process.arch)@${line.slice(1)} && hash -r`] : []
}

/** A file that names one version counts for more than the range of all that may do. */
function lineOf({ texts }: TreeFacts): string | undefined {
  const said = (texts.get('.nvmrc') ?? texts.get('.node-version') ?? '').trim().toLowerCase()
  return NAMED[said] ?? coerce(said)?.major.toString()
}
