import { expect, test } from 'vitest'
import { SandboxUnavailable } from '../sandbox.ts'
import { ApiRefusal, connectKubernetes, QuotaExceeded, toApiError } from './client.ts'

const status = (message: string, reason = 'Forbidden'): string => JSON.stringify({ kind: 'Status', message, reason })

test('a missing permission names the verb and the resource', () => {
  const message =
    'pods is forbidden: User "system:serviceaccount:a:b" cannot create resource "pods" in API group "" in the namespace "a"'
  const error = toApiError(403, status(message))
  expect(error).toBeInstanceOf(SandboxUnavailable)
  expect(error.message).toMatch(/^The Kubernetes credential may not create pods\. Grant this permission/)
})

test('an exceeded quota is reported in the words of the cluster', () => {
  const message =
    'pods "x" is forbidden: exceeded quota: small, requested: requests.memory=2Gi, used: requests.memory=3Gi, limited: requests.memory=4Gi'
  const error = toApiError(403, status(message))
  expect(error).toBeInstanceOf(QuotaExceeded)
  expect(error.message).toContain('requested: requests.memory=2Gi')
})

test('distinguishes an expired token from a missing permission', () => {
  expect(toApiError(401, status('Unauthorized')).message).toMatch(/does not accept the credential.*renew it/)
})

test('a busy or failing API server is an outage, and other refusals keep their reason', () => {
  expect(toApiError(429, 'slow down')).toBeInstanceOf(SandboxUnavailable)
  expect(toApiError(503, '<html>')).toBeInstanceOf(SandboxUnavailable)
  expect(toApiError(409, status('pods "x" already exists', 'AlreadyExists'))).toMatchObject({
    status: 409,
    reason: 'AlreadyExists',
  })
  expect(toApiError(422, status('invalid', 'Invalid'))).toBeInstanceOf(ApiRefusal)
})

test('an API server that does not answer is named', async () => {
  const kubernetes = connectKubernetes({ server: 'https://127.0.0.1:1' })
  const refused = /The Kubernetes API server https:\/\/127\.0\.0\.1:1 does not answer: .*ECONNREFUSED/
  await expect(kubernetes.call('GET', '/version')).rejects.toThrow(refused)
  await expect(kubernetes.openSocket('/api', {})).rejects.toThrow(refused)
  await expect(kubernetes.call('GET', '/version')).rejects.toThrow(SandboxUnavailable)
})
