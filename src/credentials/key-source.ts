import { join } from 'node:path'
import { readKeyFile } from './key-file.ts'
import { parseKeys } from './key-text.ts'
import type { MasterKey } from './seal.ts'

/** Source of the master keys: the operator's variable, or the key file in the data folder. */
export type KeySource = { kind: 'variable'; keys: MasterKey[] } | { kind: 'file'; path: string }

export type KeyLocation = { dataFolder: string; secretKey?: string | undefined }

const VARIABLE = 'ASSAY_SECRET_KEY'

export const resolveKeySource = ({ dataFolder, secretKey }: KeyLocation): KeySource =>
  secretKey === undefined
    ? { kind: 'file', path: join(dataFolder, 'secret.key') }
    : { kind: 'variable', keys: parseKeys(secretKey.split(','), VARIABLE) }

/** Reads the keys. New secrets are sealed with the first one. Returns none if there is no key file yet. */
export const readKeys = async (source: KeySource): Promise<MasterKey[]> =>
  source.kind === 'variable' ? source.keys : ((await readKeyFile(source.path)) ?? [])

export const describeSource = (source: KeySource): string => (source.kind === 'variable' ? VARIABLE : source.path)
