// A fake of the parts of GitHub's API that we use: visibility, renames, rate limits and failures.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { type HostedPullRequest, pageOf } from './github-pull-requests.ts'

export type CodeHostRepository = {
  id: number
  owner: string
  name: string
  visibility: 'public' | 'private' | 'internal'
}

type ScriptedFailure = { status: number; headers?: Record<string, string>; body?: string }

export type CodeHostServer = Awaited<ReturnType<typeof startCodeHost>>

export async function startCodeHost() {
  const repositories: CodeHostRepository[] = []
  const renamed = new Map<string, number>()
  /** Private repositories by the token that can see them. */
  const tokens = new Map<string, number[]>()
  const troubles: ScriptedFailure[] = []
  const requests: { path: string; token: string | undefined }[] = []
  const pullRequests = new Map<number, readonly HostedPullRequest[]>()
  /** Requested page sizes. */
  const pages: number[] = []
  let lastId = 1000

  const server = createServer((request, response) => {
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1]
    requests.push({ path: request.url ?? '', token })
    const trouble = troubles.shift()
    if (trouble) return void response.writeHead(trouble.status, trouble.headers).end(trouble.body ?? '{}')
    if (token !== undefined && !tokens.has(token)) return send(response, 401, { message: 'Bad credentials' })
    answer(request, response, tokens.get(token ?? '') ?? [])
  })

  function answer(request: IncomingMessage, response: ServerResponse, sees: number[]): void {
    if (request.url === '/graphql') void answerPage(request, response, sees)
    else answerLookup(request.url ?? '', response, sees)
  }

  function answerLookup(path: string, response: ServerResponse, sees: number[]): void {
    const name = /^\/repos\/([^/]+\/[^/]+)$/.exec(path)?.[1]?.toLowerCase()
    const moved = name === undefined ? undefined : renamed.get(name)
    if (moved !== undefined) return void response.writeHead(301, { location: `${url}/repositories/${moved}` }).end('{}')
    const found = repositories.find(
      ({ id, owner, name: own }) => path === `/repositories/${id}` || `${owner}/${own}`.toLowerCase() === name,
    )
    const isSeen = found && (found.visibility === 'public' || sees.includes(found.id))
    if (!isSeen) return void send(response, 404, { message: 'Not Found' })
    const { id, owner, visibility } = found
    send(response, 200, {
      id,
      name: found.name,
      full_name: `${owner}/${found.name}`,
      owner: { login: owner, id: 1 },
      private: visibility !== 'public',
      visibility,
      default_branch: 'main',
    })
  }

  async function answerPage(request: IncomingMessage, response: ServerResponse, sees: number[]): Promise<void> {
    const { answer: body, first } = pageOf(await text(request), (fullName) => {
      const found = repositories.find(({ owner, name }) => `${owner}/${name}` === fullName)
      const isSeen = found && (found.visibility === 'public' || sees.includes(found.id))
      return isSeen ? (pullRequests.get(found.id) ?? []) : undefined
    })
    pages.push(first)
    send(response, 200, body)
  }

  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
  return {
    url,
    requests,
    pages,
    setPullRequests: ({ id }: CodeHostRepository, list: readonly HostedPullRequest[]) =>
      void pullRequests.set(id, list),
    add(fullName: string, visibility: CodeHostRepository['visibility'] = 'public'): CodeHostRepository {
      const [owner = '', name = ''] = fullName.split('/')
      const repository = { id: ++lastId, owner, name, visibility }
      repositories.push(repository)
      return repository
    },
    remove: ({ id }: CodeHostRepository) => {
      repositories.splice(
        repositories.findIndex((each) => each.id === id),
        1,
      )
    },
    rename(repository: CodeHostRepository, name: string): void {
      renamed.set(`${repository.owner}/${repository.name}`.toLowerCase(), repository.id)
      repository.name = name
    },
    addToken: (token: string, sees: CodeHostRepository[] = []) =>
      tokens.set(
        token,
        sees.map(({ id }) => id),
      ),
    /** Replaces the next answer. */
    misbehave: (trouble: ScriptedFailure) => void troubles.push(trouble),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const send = (response: ServerResponse, status: number, body: object): void =>
  void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
