import { v5, v7 } from 'uuid'

/** Creates an id. Ids sort by creation time, which keeps indexes dense and cursors short. */
export const newId = (): string => v7()

const NAMESPACE = '6f6f9d6a-4c0f-5f3e-9b53-6d1d2f0f6a51'

/** Derives an id from words. Deterministic: the same words give the same id on every machine. */
export const derivedId = (...words: string[]): string => v5(words.join('\n'), NAMESPACE)
