import { v5, v7 } from 'uuid'

/** Ids sort by the time they were made, which keeps indexes dense and cursors short. */
export const newId = (): string => v7()

const NAMESPACE = '6f6f9d6a-4c0f-5f3e-9b53-6d1d2f0f6a51'

/** The same words give the same id, on every machine. */
export const derivedId = (...words: string[]): string => v5(words.join('\n'), NAMESPACE)
