import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** One script and one sheet, which scripts/console.py puts into the page. */
export default defineConfig({
  base: "./",
  publicDir: false,
  plugins: [react()],
  build: {
    outDir: "../build/report",
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    target: "es2022",
    cssCodeSplit: false,
    chunkSizeWarningLimit: 1000,
    rollupOptions: { input: "report.html", output: { inlineDynamicImports: true } },
  },
});
