import { shown } from '../report.ts'
import type { FileSource } from '../source.ts'
import { gather } from './gather.ts'
import { type Caps, type SandboxAbilities, USUAL_CAPS } from './options.ts'
import type { Finding, Rule } from './rule.ts'
import { RULES, RULES_VERSION } from './rules.ts'
import { estimateStrength, type StrengthEstimate } from './verifier-strength.ts'
import { type View, viewOf } from './view.ts'

export type CheckOptions = {
  /** What came from a registry: all of it counts. In a folder, what Harbor would not pack is left out. */
  isPackage?: boolean
  /** What the sandbox can do. Left out: nothing is refused for what it asks of one. */
  sandbox?: SandboxAbilities
  caps?: Partial<Caps>
}

/** `strength` is undefined where task.toml cannot be read. */
export type Check = { rules: string; findings: Finding[]; strength: StrengthEstimate | undefined }

/** Looks at a task by every rule, and runs nothing of it. */
export async function checkTask(source: FileSource, options: CheckOptions = {}): Promise<Check> {
  const gathered = await gather(source, options.isPackage ?? false)
  const view = viewOf(gathered, { caps: { ...USUAL_CAPS, ...options.caps }, sandbox: options.sandbox })
  return {
    rules: RULES_VERSION,
    findings: withoutEchoes(RULES.flatMap((rule) => findingsOf(rule, view))),
    strength: view.outline && estimateStrength(view.outline, view.texts),
  }
}

/** More of the same say no more. */
const EACH_MAX = 20

const findingsOf = ({ id, severity, check }: Rule, view: View): Finding[] =>
  check(view)
    .slice(0, EACH_MAX)
    .map(({ path, line, detail }) => ({
      rule: id,
      severity,
      path: shown(path),
      ...(line === undefined ? {} : { line }),
      detail: shown(detail),
    }))

/** The reader refuses compose keys that it does not interpret. Where another rule names the danger, that is the reason. */
function withoutEchoes(findings: Finding[]): Finding[] {
  const named = findings.filter(({ rule, severity }) => rule !== 'schema' && severity === 'block')
  const paths = new Set(named.map(({ path }) => path))
  const above = new Set(named.flatMap(({ path }) => beginnings(path)))
  const isEcho = ({ rule, path }: Finding) =>
    rule === 'schema' &&
    path.includes('.yaml.') &&
    (above.has(path) || beginnings(path).some((start) => paths.has(start)))
  return findings.filter((finding) => !isEcho(finding))
}

/** `a.b.c`: a, a.b, a.b.c. */
const beginnings = (path: string): string[] => {
  const parts = path.split('.')
  return parts.map((_, last) => parts.slice(0, last + 1).join('.'))
}
