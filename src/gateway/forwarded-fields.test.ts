import { expect, test } from 'vitest'
import { KEY, message, messagesRequest, openGatewayFixture, sendJson } from '../../test/support/gateway/gateway.ts'

// Proxies such as LiteLLM accept extra members and headers that select another model, address or answer.

const CHAT = '/v1/chat/completions'
const RESPONSES = '/v1/responses'
const GEMINI = '/v1beta/models/large-1:generateContent'
const REQUESTS: [path: string, body: object][] = [
  ['/v1/messages', messagesRequest()],
  [CHAT, { model: 'large-1', messages: [], reasoning_effort: 'high' }],
  [RESPONSES, { model: 'large-1', input: 'x', reasoning: { effort: 'high' } }],
  [GEMINI, { contents: [{ role: 'user', parts: [{ text: 'x' }] }] }],
]

const openOrdinary = () => openGatewayFixture((response) => sendJson(response, message()))

test.each(REQUESTS)('members that choose another model or address are refused at %s', async (path, body) => {
  await using fixture = await openOrdinary()
  const sandbox = await fixture.sandbox()
  const members = {
    fallbacks: ['huge-1'],
    context_window_fallbacks: [{ 'large-1': ['huge-1'] }],
    content_policy_fallbacks: [{ 'large-1': ['huge-1'] }],
    default_fallbacks: ['huge-1'],
    api_base: 'https://example.com',
    base_url: 'https://example.com',
    api_key: 'sk-other',
    custom_llm_provider: 'other',
    model_list: [{ model_name: 'large-1' }],
    router_settings: { fallbacks: [] },
    router_settings_override: { fallbacks: [] },
    user_config: { model_list: [] },
    models: ['huge-1'],
    plugins: [{ id: 'web' }],
    'API-Base': 'https://example.com',
    'fall\u200bbacks': ['huge-1'],
  }
  for (const [name, value] of Object.entries(members)) {
    const answer = await sandbox.post(path, { ...body, [name]: value })
    expect([name, answer.status]).toEqual([name, 400])
  }
  expect(fixture.received).toEqual([])
  expect((await sandbox.totals()).refusals).toEqual({ hosted: Object.keys(members).length })
})

test.each(REQUESTS)('members that the protocol does not document are removed at %s', async (path, body) => {
  await using fixture = await openOrdinary()
  const sandbox = await fixture.sandbox()
  const unknown = {
    mock_response: 'Solved.',
    mock_testing_fallbacks: true,
    api_version: '2020-01-01',
    num_retries: 9,
    timeout: 1,
    litellm_params: { model: 'huge-1' },
    litellm_metadata: { tags: ['huge'] },
    cache: { 'no-cache': true },
    transforms: ['middle-out'],
    store: true,
    fallbacks: null,
    extra_headers: { 'x-api-base': 'https://example.com' },
    'max-tokens': 9,
    'max_tokens\u200b': 9,
    ｍodel: 'huge-1',
    constructor: 1,
    anything: { else: true },
  }
  const metadata = { tags: ['huge'], model_group: 'huge-1' }
  expect((await sandbox.post(path, { ...unknown, ...body, metadata })).status).toBe(200)
  expect(JSON.parse(String(fixture.received[0]?.body))).toEqual(body)
})

test.each<[string, object]>([
  [
    '/v1/messages',
    messagesRequest({
      metadata: { user_id: 'session' },
      system: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }],
      tools: [{ name: 'Bash', input_schema: { type: 'object' } }],
      tool_choice: { type: 'auto' },
      thinking: { type: 'adaptive' },
      context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
      temperature: 1,
    }),
  ],
  [
    CHAT,
    {
      model: 'large-1',
      messages: [],
      tools: [{ type: 'function', function: { name: 'shell', parameters: {} } }],
      tool_choice: 'auto',
      parallel_tool_calls: true,
      prompt_cache_key: 'session',
      reasoning_effort: 'high',
      thinking: { type: 'enabled' },
      enable_thinking: true,
      chat_template_kwargs: { enable_thinking: true },
      max_completion_tokens: 100,
      response_format: { type: 'text' },
      store: false,
      top_k: 20,
      stream: true,
      stream_options: { include_usage: true },
    },
  ],
  [
    RESPONSES,
    {
      model: 'large-1',
      instructions: 'x',
      input: [],
      tools: [{ type: 'function', name: 'shell' }],
      tool_choice: 'auto',
      parallel_tool_calls: false,
      reasoning: { effort: 'high', summary: 'auto' },
      include: ['reasoning.encrypted_content'],
      prompt_cache_key: 'session',
      text: { verbosity: 'low' },
      store: false,
      stream: true,
    },
  ],
  [
    GEMINI,
    {
      contents: [{ role: 'user', parts: [{ text: 'x' }] }],
      systemInstruction: { parts: [{ text: 'x' }] },
      generation_config: { temperature: 1 },
      tools: [{ functionDeclarations: [] }],
      toolConfig: { functionCallingConfig: { mode: 'AUTO' } },
      safety_settings: [],
    },
  ],
])('members that agent programs send to %s are forwarded byte for byte', async (path, body) => {
  await using fixture = await openOrdinary()
  const sandbox = await fixture.sandbox()
  const bytes = JSON.stringify(body, null, 1)
  expect((await sandbox.post(path, bytes)).status).toBe(200)
  expect(String(fixture.received[0]?.body)).toBe(bytes)
})

test.each(REQUESTS)('only headers that the protocol documents are forwarded at %s', async (path, body) => {
  await using fixture = await openOrdinary()
  const sandbox = await fixture.sandbox()
  const unknown = {
    'x-api-base': 'https://example.com',
    'x-litellm-model': 'huge-1',
    'x-litellm-tags': 'huge',
    'x-anything': '1',
    'x-stainless-timeout': '1',
    'idempotency-key': 'earlier',
    'openai-organization': 'other',
  }
  const documented = {
    'anthropic-beta': 'interleaved-thinking-2025-05-14',
    'anthropic-version': '2023-06-01',
    'openai-beta': 'b-1',
  }
  const known = { 'user-agent': 'agent/1', 'x-stainless-lang': 'js', accept: 'application/json' }

  await sandbox.post(`${path}?api-version=2020`, body, { headers: { ...unknown, ...documented, ...known } })

  const [{ headers: sent = {}, path: target } = {}] = fixture.received
  expect(target).toBe(path)
  expect(sent).toMatchObject(known)
  expect(JSON.stringify(sent)).toContain(KEY)
  for (const name of Object.keys(unknown)) expect(sent).not.toHaveProperty(name)
  const own = Object.keys(documented).filter((name) => name in sent)
  const expected: Record<string, string[]> = {
    '/v1/messages': ['anthropic-beta', 'anthropic-version'],
    [RESPONSES]: ['openai-beta'],
  }
  expect(own).toEqual(expected[path] ?? [])
})

test('only betas that agent programs need and that change no price are forwarded', async () => {
  await using fixture = await openOrdinary()
  const sandbox = await fixture.sandbox()
  const known = 'claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,effort-2025-11-24'
  const others = [
    'context-1m-2025-08-07',
    'fast-mode-2026-02-01',
    'files-api-2025-04-14',
    'code-execution-2025-08-25',
    'mcp-client-2025-11-20',
    'advisor-tool-2026-03-01',
    'oauth-2025-04-20',
    'anything-2026-01-01',
    'effort',
  ]
  const headers = { 'anthropic-beta': [...others, known, ...others].join(', ') }
  expect((await sandbox.post('/v1/messages', messagesRequest(), { headers })).status).toBe(200)
  expect(fixture.received[0]?.headers['anthropic-beta']).toBe(known)
})
