import { CREDENTIAL_FORMATS, isMadeUp } from '../credential-formats.ts'
import { lineAt } from '../lines.ts'
import { oncePer } from '../once.ts'
import type { Found, Rule } from '../rule.ts'
import type { TextFile } from '../task-parts.ts'
import type { View } from '../view.ts'

type Credential = Found & { isIssued: boolean }

/** Of one format in one file, more say no more. */
const EACH_MAX = 3
const MATCHES_MAX = 100

const credentialsOf = oncePer(({ texts }: View): Credential[] => texts.flatMap(credentialsIn))

/** The value itself must not enter a message. */
export const credentialsIn = ({ path, text }: TextFile): Credential[] =>
  CREDENTIAL_FORMATS.filter(({ hint }) => text.includes(hint)).flatMap(({ name, pattern, isIssued }) => {
    const real = text
      .matchAll(pattern)
      .take(MATCHES_MAX)
      .filter(([value]) => !isMadeUp(value))
    return [...real.take(EACH_MAX)].map(({ 0: value, index }) => ({
      path,
      line: lineAt(text, index),
      detail: `This looks like a ${name}.`,
      isIssued: isIssued?.(value) ?? false,
    }))
  })

const without = ({ isIssued: _, ...found }: Credential): Found => found

export const credentialRules: Rule[] = [
  {
    id: 'live_credentials',
    severity: 'block',
    what: 'a token that only its issuer can have made: its checksum or its mark is right',
    check: (view) =>
      credentialsOf(view)
        .filter(({ isIssued }) => isIssued)
        .map(without),
  },
  {
    id: 'credentials',
    severity: 'warn',
    what: 'texts in the format of a key, a token or a private key',
    check: (view) =>
      credentialsOf(view)
        .filter(({ isIssued }) => !isIssued)
        .map(without),
  },
]
