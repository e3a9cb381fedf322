import { defineCollection } from 'astro:content';
import { skillsLoader } from 'astro-skills';

export const collections = {
  skills: defineCollection({ loader: skillsLoader({ base: './skills' }) }),
};
