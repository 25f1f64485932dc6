import type { JsonObject, Media } from '../wire.ts'
import { listOf, objectOf, textOf } from './fields.ts'

/** Of all messages, also those in what a tool gave back, and in documents. */
export function blocksIn(body: JsonObject): JsonObject[] {
  const found: JsonObject[] = []
  // A list and not a recursion: who nests deep must not break the stack.
  const waiting = listOf(body.messages).flatMap((message) => listOf(objectOf(message).content))
  for (let block = waiting.pop(); block !== undefined; block = waiting.pop()) {
    const { content, source } = objectOf(block)
    found.push(objectOf(block))
    for (const each of [...listOf(content), ...listOf(objectOf(source).content)]) waiting.push(each)
  }
  return found
}

/** Pictures and documents that the provider would fetch, or has. */
export function addressOf({ type, source }: JsonObject): string[] {
  const { type: way } = objectOf(source)
  return way === 'url' || way === 'file' ? [`${textOf(type) ?? 'content'} by address`] : []
}

export function mediaOf({ type, source }: JsonObject): keyof Media | undefined {
  if (objectOf(source).type !== 'base64') return undefined
  return type === 'document' ? 'documents' : 'pictures'
}
