import type { Rule } from './rule.ts'
import { composeFileRules } from './rules/compose-files.ts'
import { composePrivilegeRules } from './rules/compose-privileges.ts'
import { credentialRules } from './rules/credentials.ts'
import { dangerRules } from './rules/dangers.ts'
import { dockerfileRules } from './rules/dockerfile.ts'
import { formRules } from './rules/form.ts'
import { imageRules } from './rules/image.ts'
import { instructionRules } from './rules/instruction.ts'
import { limitRules } from './rules/limits.ts'
import { variableRules } from './rules/variables.ts'

/** Goes up whenever a rule is added, dropped or decides otherwise: a record says by which rules it was made. */
export const RULES_VERSION = '4'

export const RULES: readonly Rule[] = [
  ...formRules,
  ...composePrivilegeRules,
  ...composeFileRules,
  ...variableRules,
  ...dockerfileRules,
  ...imageRules,
  ...limitRules,
  ...credentialRules,
  ...dangerRules,
  ...instructionRules,
]
