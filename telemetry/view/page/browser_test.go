package page

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// chromium finds the browser; a test that needs it is skipped where there is none, and fails
// with WEIR_REQUIRE_CHROMIUM=1.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const missing = "no Chromium here: install Debian's package chromium"
	if os.Getenv("WEIR_REQUIRE_CHROMIUM") == "1" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// long skips a test of the page that is left out under -short: a page takes seconds of two cores.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long")
	}
}

// look is how a page is looked at.
type look struct {
	width, height int64
	dark          bool
	reduced       bool
}

func (l look) String() string {
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	return fmt.Sprintf("%d-%s", l.width, scheme)
}

var (
	wide   = look{width: 1280, height: 900}
	narrow = look{width: 390, height: 844}
)

// tab is a page in the browser, with all that it said and asked for.
type tab struct {
	t   *testing.T
	ctx context.Context
	url string

	lock     sync.Mutex
	said     []string // errors on the console, and those that nothing caught
	requests []string
}

// theBrowser is one Chromium for all tests, each of which has tabs of its own.
var theBrowser struct {
	sync.Once
	ctx context.Context
	end func()
	err error
}

// TestMain ends the browser, which else goes on and writes its profile.
func TestMain(m *testing.M) {
	netnstest.Isolate()
	code := m.Run()
	if theBrowser.end != nil {
		theBrowser.end()
	}
	os.Exit(code)
}

// browser is the one Chromium, which the first test that needs it starts.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := chromium(t)
	theBrowser.Do(func() { startBrowser(path) })
	if theBrowser.err != nil {
		t.Fatalf("start %s: %v", path, theBrowser.err)
	}
	return theBrowser.ctx
}

func startBrowser(path string) {
	profile, err := os.MkdirTemp("", "weir-page-")
	if err != nil {
		theBrowser.err = err
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(profile), chromedp.WSURLReadTimeout(3*time.Minute),
		// What the browser would ask of the network for itself.
		chromedp.Flag("disable-component-update", true), chromedp.Flag("no-pings", true), chromedp.Flag("disable-domain-reliability", true))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	theBrowser.ctx, _ = chromedp.NewContext(ctx)
	theBrowser.err = chromedp.Do(theBrowser.ctx)
	theBrowser.end = func() {
		_ = chromedp.Cancel(theBrowser.ctx)
		cancel()
		_ = os.RemoveAll(profile)
	}
}

// open shows an address in a new tab, and waits for the page's first answers.
func open(t *testing.T, browser context.Context, address string, l look) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, url: address}
	if err := chromedp.Listen(ctx, p.hear); err != nil {
		t.Fatal(err)
	}
	scheme, motion := "light", "no-preference"
	if l.dark {
		scheme = "dark"
	}
	if l.reduced {
		motion = "reduce"
	}
	call(p, network.Enable, network.EnableParams{})
	call(p, log.Enable, cdp.Empty{})
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: l.width, Height: l.height, DeviceScaleFactor: 1, Mobile: l.width < 600})
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion},
	}})
	p.run(chromedp.Navigate(address))
	p.wait("the first round of answers", `document.querySelector("#live").dataset.state !== "wait"`)
	return p
}

// call sends a command of the protocol to the tab.
func call[P, R any](p *tab, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	r, err := chromedp.Call(p.ctx, command, params)
	if err != nil {
		p.t.Fatalf("%s: %v", command.Method, err)
	}
	return r
}

// hear notes what the page says and asks for.
func (p *tab) hear(event any) {
	p.lock.Lock()
	defer p.lock.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		p.said = append(p.said, text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			var words []string
			for _, a := range e.Args {
				words = append(words, string(a.Value)+a.Description)
			}
			p.said = append(p.said, strings.Join(words, " "))
		}
	case *log.EventEntryAdded:
		// An answer that is an error of the API is shown on the page, and its status is no fault of it.
		if e.Entry.Level == log.EntryLevelError && !strings.Contains(e.Entry.URL, "/weir.query.v1.QueryService/") {
			p.said = append(p.said, e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	}
}

func (p *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// eval runs an expression in the page, which may be a promise.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// wait polls until a condition of the page holds.
func (p *tab) wait(what, condition string) {
	p.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if eval[bool](p, "Boolean("+condition+")") {
			return
		}
	}
	p.t.Fatalf("%s did not come; the page: %s\nit said %q", what, eval[string](p, "document.body.innerText.slice(0, 1500)"), p.said)
}

// quiet fails for anything that the page said, or asked of another server.
func (p *tab) quiet() {
	p.t.Helper()
	p.lock.Lock()
	defer p.lock.Unlock()
	for _, s := range p.said {
		p.t.Errorf("the console: %s", s)
	}
	home, err := url.Parse(p.url)
	if err != nil {
		p.t.Fatal(err)
	}
	if len(p.requests) == 0 {
		p.t.Error("no request was seen")
	}
	for _, r := range p.requests {
		if u, err := url.Parse(strings.TrimPrefix(r, "blob:")); err != nil || u.Host != home.Host {
			p.t.Errorf("a request to elsewhere: %s", r)
		}
	}
}

// shoot writes a screenshot into the folder that WEIR_SCREENSHOTS names, of the whole page or of
// what is in view.
func (p *tab) shoot(name string, whole bool) {
	p.t.Helper()
	if folder := os.Getenv("WEIR_SCREENSHOTS"); folder != "" {
		p.shootInto(folder, name, whole)
	}
}

// shootInto writes a screenshot into a folder.
func (p *tab) shootInto(folder, name string, whole bool) {
	p.t.Helper()
	params := page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng}
	if whole {
		size := call(p, page.GetLayoutMetrics, cdp.Empty{}).CSSContentSize
		beyond := true
		params.CaptureBeyondViewport = &beyond
		params.Clip = &page.Viewport{Width: size.Width, Height: size.Height, Scale: 1}
	}
	png := call(p, page.CaptureScreenshot, params).Data
	if err := os.MkdirAll(folder, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644); err != nil {
		p.t.Fatal(err)
	}
}
