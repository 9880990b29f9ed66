package main

import "github.com/spf13/cobra"

func newVerifyInitCommand() *cobra.Command { return &cobra.Command{Use: "init"} }
