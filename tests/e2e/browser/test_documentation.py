"""The pages of the documentation, as far as ours differ from the theme's."""

from pathlib import Path

STYLE = (Path(__file__).parents[3] / "docs" / "console.css").read_text()
SESSION = '<span class="gp">$ </span>skillwire verify\n<span class="go">ok notes</span>\n'
PROGRAM = (
    '<span class="nb">print</span><span class="p">(</span>1<span class="p">)</span> <span class="c1"># one</span>\n'
)


def test_the_copy_button_takes_the_commands_of_a_session_and_all_of_a_program(chromium):
    page = chromium.new_page()

    def copied(code):
        page.set_content(f"<style>{STYLE}</style><pre><code data-md-copying>{code}</code></pre>")
        return page.inner_text("code").strip()

    assert copied(SESSION) == "skillwire verify"
    assert copied(PROGRAM) == "print(1) # one"
    page.close()
