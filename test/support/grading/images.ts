import { services } from '../../../src/grading/services/services.ts'
import { TESTS_UID } from '../../../src/grading/suite.ts'
import { equippedRootfs } from '../base-image.ts'

const apt = (...packages: string[]): string =>
  `apt-get update && apt-get install --yes --no-install-recommends git python3 ca-certificates ${packages.join(' ')}`

/** Debian 13 with Python and pytest. */
export const pythonRootfs = (): Promise<string> => equippedRootfs('python', apt('python3-pytest'))

/** Precompiles the standard library of Go, so that sandboxes do not. */
const WARM_GO = `mkdir -p /home/tests && cd /tmp && export HOME=/home/tests
printf 'package main\nimport ("fmt"; "testing")\nfunc TestNothing(t *testing.T) { fmt.Println() }\n' > warm_test.go
go test warm_test.go && rm warm_test.go
chown -R ${TESTS_UID}:${TESTS_UID} /home/tests`

/** Debian 13 with the test runners of the default suites. */
export const shortRootfs = (): Promise<string> =>
  equippedRootfs('runners', `${apt('python3-pytest', 'nodejs', 'golang-go')}\n${WARM_GO}`)

/** Certificates that this machine trusts, including private ones. */
const TRUST = `cd /usr/local/share/ca-certificates
csplit -s -z -f machine- -b %03d.crt ../machine.crt '/-----BEGIN CERTIFICATE-----/' '{*}'
update-ca-certificates`

/** Folder in which Node finds modules that a repository does not have. */
const JAVASCRIPT = `mkdir -p /workspace && cd /workspace && export NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
npm install --no-audit --no-fund --no-package-lock jest@29.7.0 vitest@3.2.4 mocha@11.7.1
mv node_modules /opt/node_modules && rm -rf /workspace/* && ln -s /opt/node_modules /workspace/node_modules`

const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>warm</artifactId><version>1</version>
<properties><maven.compiler.release>21</maven.compiler.release><project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
<dependencies><dependency><groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId><version>5.11.4</version><scope>test</scope></dependency></dependencies>
<build><plugins><plugin><artifactId>maven-surefire-plugin</artifactId><version>3.5.2</version></plugin></plugins></build>
</project>`

/** Downloads the Maven plugins by running an empty test. */
const WARM_MAVEN = `mkdir -p /tmp/warm/src/test/java && cd /tmp/warm
cat > pom.xml <<'END'
${POM}
END
printf 'class WarmTest { @org.junit.jupiter.api.Test void nothing() {} }\n' > src/test/java/WarmTest.java
mvn -B -q -Duser.home=/home/tests test && rm -rf /tmp/warm`

/** Runners that take long to install or much space. */
export const longRootfs = (): Promise<string> =>
  equippedRootfs(
    'more-runners',
    [
      apt('nodejs npm cargo rustc cmake make g++ ruby-rspec phpunit gradle junit4 openjdk-21-jdk-headless maven'),
      TRUST,
      JAVASCRIPT,
      'mkdir -p /home/tests',
      WARM_MAVEN,
      `chown -R ${TESTS_UID}:${TESTS_UID} /home/tests`,
    ].join('\n'),
  )

/** Debian 13 with pytest, every server that tests can have, and Python's clients for them. */
export const servicesRootfs = (): Promise<string> => {
  const packages = services.flatMap((service) => service.listPackages('debian:trixie-slim', 'pgvector/pgvector'))
  const clients = ['python3-psycopg2', 'python3-pymysql', 'python3-redis']
  const install = apt('libfaketime', 'python3-pytest', ...clients, ...new Set(packages))
  return equippedRootfs('services', [install, ...services.flatMap(({ toolchain }) => toolchain)].join('\n'))
}
