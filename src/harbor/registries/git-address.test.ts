import { expect, test } from 'vitest'
import { createGitAdmission } from './registry-json.ts'

const resolvesTo = (...addresses: string[]) => createGitAdmission('http://10.0.0.1:8080', async () => addresses)
const V4 = '93.184.216.34'
const V6 = '2606:4700::1111'

test('pins git to the checked addresses even if the name changes', async () => {
  const admit = resolvesTo(V4, V6)
  const pin = { host: 'git.example.org', port: 443, addresses: [V4, V6] }
  const url = 'https://git.example.org/a'
  expect(await admit(url)).toEqual({ url, protocol: 'https', pin })
  expect(await admit('https://git.example.org:8443/a')).toMatchObject({ pin: { ...pin, port: 8443 } })
})

test.each([
  ['a private address', ['10.0.0.1'], true],
  ['a private address among public ones', [V4, '127.0.0.1'], true],
  ['the metadata of a cloud', ['169.254.169.254'], true],
  ['no address', [], false],
])('refuses a name with %s, with the same message', async (_, addresses, isPermanent) => {
  const refused = resolvesTo(...addresses)('https://git.example.org/a')
  const message = 'The git host git.example.org does not have a public address.'
  await expect(refused).rejects.toMatchObject({ message, isPermanent })
})

test('refuses a URL that is not canonical before resolving its name', async () => {
  const admit = createGitAdmission('http://10.0.0.1:8080', () => Promise.reject(new Error('looked up')))
  for (const url of [`https://${V4}\\@127.0.0.1:22443/x.git`, 'http://10.0.0.1:8080\\@127.0.0.1/x.git'])
    await expect(admit(url)).rejects.toMatchObject({ isPermanent: true })
})

test('allows the private server of the list but not another port of it', async () => {
  expect(await resolvesTo()('http://10.0.0.1:8080/a')).toEqual({
    url: 'http://10.0.0.1:8080/a',
    protocol: 'http',
    pin: undefined,
  })
  await expect(resolvesTo()('http://10.0.0.1:8081/a')).rejects.toMatchObject({ isPermanent: true })
  await expect(resolvesTo()('https://10.0.0.1/a')).rejects.toMatchObject({ isPermanent: true })
})
