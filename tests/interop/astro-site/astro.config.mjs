// The smallest site that publishes skills with astro-skills. The test copies it and adds skills/ and node_modules.
import { defineConfig } from 'astro/config';
import skills from 'astro-skills';

export default defineConfig({
  integrations: [skills()],
  // Else the caches go into node_modules, which every site of the tests shares.
  cacheDir: './cache/astro',
  vite: { cacheDir: './cache/vite' },
});
