// Reads texts of SKILL.md, one JSON string a line, and answers each with what two YAML libraries find in its
// frontmatter: `yaml`, which the skills CLI and astro-skills use, and `js-yaml`, which most other programs use.
import { createInterface } from 'node:readline';
import { load } from 'js-yaml';
import { parse } from 'yaml';

// As the skills CLI takes a frontmatter out of its file.
const FRONTMATTER = /^\uFEFF?---\r?\n([\s\S]*?)\r?\n---\r?\n?([\s\S]*)$/;
const READERS = { yaml: parse, 'js-yaml': load };

function answer(read, text) {
  try {
    const { name, description } = read(text.match(FRONTMATTER)[1]);
    return { name, description };
  } catch (error) {
    return { error: error.message };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const text = JSON.parse(line);
  const answers = Object.entries(READERS).map(([name, read]) => [name, answer(read, text)]);
  process.stdout.write(`${JSON.stringify(Object.fromEntries(answers))}\n`);
}
