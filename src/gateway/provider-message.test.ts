import { expect, test } from 'vitest'
import { findContextExcess, readProviderMessage } from './provider-message.ts'

const KEY = 'my-secret-key-0123'

test.each([
  ['OpenAI', '{"error":{"message":"No such model","type":"x"}}', 'No such model'],
  ['Anthropic', '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', 'Overloaded'],
  ['Gemini', '[{"error":{"code":400,"message":"Bad"}}]', 'Bad'],
  ['Ollama', '{"error":"model \\"x\\" not found"}', 'model "x" not found'],
  ['FastAPI', '{"detail":"Not Found"}', 'Not Found'],
  ['vLLM', '{"object":"error","message":"Too long","code":400}', 'Too long'],
  ['plain text', 'upstream connect error\n', 'upstream connect error'],
  ['a proxy', '<html><head><title>502 Bad Gateway</title></head></html>', '502 Bad Gateway'],
  ['a page without a title', '<html></html>', null],
  ['nothing', '', null],
  ['no message', '{"ok":false}', null],
  ['several lines', '{"error":{"message":"a\\n  b"}}', 'a b'],
  ['control characters', '{"error":{"message":"a\\u001b[2Jb\\u202e"}}', 'a\ufffd[2Jb\ufffd'],
])('reads the message of %s', (_, body, message) => {
  expect(readProviderMessage(body, [KEY])).toBe(message)
})

test.each([
  [`Incorrect API key provided: ${KEY}.`, 'Incorrect API key provided: [removed].'],
  ['Incorrect API key provided: sk-ab******wxyz.', 'Incorrect API key provided: [removed]'],
  ['bad header: Bearer abc.def', 'bad header: Bearer [removed]'],
  ['The key AKIAIOSFODNN7EXAMPLE is disabled', 'The key [removed] is disabled'],
  ['The token ya29.a0AfB_byC-1 is invalid', 'The token [removed] is invalid'],
  ['key AIzaSyA-1234567890 is invalid', 'key [removed] is invalid'],
])('removes secrets from %s', (text, message) => {
  expect(readProviderMessage(text, [KEY])).toBe(message)
})

test('bounds long messages', () => {
  expect(readProviderMessage('x'.repeat(100_000), [KEY])).toHaveLength(502)
})

test.each([
  ['request (2257 tokens) exceeds the available context size (1024 tokens), try increasing it', 2257, 1024],
  ['prompt is too long: 210000 tokens > 200000 maximum', 210000, 200000],
  ["This model's maximum context length is 4096 tokens. However, your messages resulted in 5003 tokens.", 5003, 4096],
  [
    "This model's maximum context length is 4096 tokens. However, you requested 6000 tokens (5000 in the messages).",
    6000,
    4096,
  ],
  ['The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).', 1200000, 1048576],
])('finds both sizes in: %s', (message, tokens, limit) => {
  expect(findContextExcess(message)).toEqual({ tokens, limit })
})

test('finds no sizes elsewhere', () => {
  expect(findContextExcess('Rate limit of 1024 tokens per minute exceeded')).toBeUndefined()
})
