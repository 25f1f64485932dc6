import type { SampleProject } from '../sample-project.ts'

export const gradleSample: SampleProject = {
  runner: 'gradle',
  tree: {
    'build.gradle': `apply plugin: 'java'
compileTestJava.options.encoding = 'UTF-8'
dependencies { testCompile files('/usr/share/java/junit4.jar', '/usr/share/java/hamcrest-core.jar', '/usr/share/java/hamcrest.jar') }
`,
    'settings.gradle': "rootProject.name = 'shapes'\n",
    '.gitignore': 'build\n.gradle\n',
    'src/main/java/org/example/Shapes.java':
      'package org.example;\npublic class Shapes { public static int area(int side) { return side * side; } }\n',
    'src/test/java/org/example/ShapesTest.java': `package org.example;
import static org.junit.Assert.*;
import org.junit.*;

public class ShapesTest {
  @Test public void square() { assertEquals(4, Shapes.area(2)); }
  @Test public void wrong() { assertEquals(5, Shapes.area(2)); }
  @Test public void error() { throw new IllegalStateException("no such shape"); }
  @Test @Ignore("later") public void later() {}
  @Test public void größe() { assertEquals(9, Shapes.area(3)); }
}
`,
    'src/test/java/org/example/OtherTest.java':
      'package org.example;\npublic class OtherTest { @org.junit.Test public void square() {} }\n',
  },
  statuses: {
    'org.example.ShapesTest::square': 'passed',
    'org.example.ShapesTest::wrong': 'failed',
    'org.example.ShapesTest::error': 'failed',
    'org.example.ShapesTest::later': 'skipped',
    'org.example.ShapesTest::größe': 'passed',
    'org.example.OtherTest::square': 'passed',
  },
  target: 'src/test/java/org/example/OtherTest.java',
  targetStatuses: { 'org.example.OtherTest::square': 'passed' },
  failureMessage: ['org.example.ShapesTest::wrong', 'expected:<5> but was:<4>'],
}
