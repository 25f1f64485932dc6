import { expect, test } from 'vitest'
import { hasPrivateRegistry, isListedRegistry, leadsToPrivateRegistry } from './image-registry.ts'

test.each([
  '127.0.0.1:5000/a/b',
  '127.0.0.1/a',
  '0x7f.1:5000/a',
  '2130706433:5000/a',
  '127.0.0.1.:5000/a',
  '10.0.0.5/a/b:1',
  '192.168.1.1:5000/a@sha256:00',
  '169.254.169.254/latest/meta-data',
  '192.0.2.2:5000/a/b',
  '[::1]:5000/a',
  'localhost/a',
  'localhost:5000/a',
  'LOCALHOST/a',
  'registry:5000/a',
  'registry.internal/a',
  'printer.local/a',
  'docker://127.0.0.1:5000/a',
])('%s is in a private registry', (reference) => {
  expect(hasPrivateRegistry(reference)).toBe(true)
})

test.each([
  'python:3.13-slim',
  'library/python',
  'org/image@sha256:00',
  'docker.io/library/python:3',
  'ghcr.io/org/image:1',
  'registry.example.com:5000/a/b',
  '8.8.8.8:5000/a',
  'scratch',
  '',
])('%s is not in a private registry', (reference) => {
  expect(hasPrivateRegistry(reference)).toBe(false)
})

const ALLOWED = [
  { host: '10.0.0.0/8', port: null },
  { host: 'registry', port: 5000 },
]

test('registries that the operator allows are not refused', () => {
  expect(['10.1.2.3/a', 'registry:5000/a'].map((each) => hasPrivateRegistry(each, ALLOWED))).toEqual([false, false])
  const others = ['10.1.2.3:5000/a', 'registry:5001/a', '127.0.0.1/a']
  expect(others.map((each) => hasPrivateRegistry(each, ALLOWED))).toEqual([true, true, true])
})

test('a name that resolves to a private address is refused unless the address is allowed', async () => {
  const resolve =
    (...addresses: string[]) =>
    async () =>
      addresses
  const judge = (...addresses: string[]) => leadsToPrivateRegistry('a.example.com/b', ALLOWED, resolve(...addresses))
  expect(await judge('127.0.0.1')).toBe(true)
  expect(await judge('8.8.8.8', '192.168.0.1')).toBe(true)
  expect(await judge('8.8.8.8')).toBe(false)
  expect(await judge('10.0.0.1')).toBe(false)
  expect(await judge()).toBe(false)
})

test('a registry is listed only by its own name or address, and its port', () => {
  const allowed = [
    { host: 'registry.example.org', port: 5000 },
    { host: '10.0.0.5', port: null },
  ]
  const listed = ['registry.example.org:5000/a', '10.0.0.5/a', 'registry.example.org/a', 'python:3', '10.0.0.6/a']
  expect(listed.map((reference) => isListedRegistry(reference, allowed))).toEqual([true, true, false, false, false])
})
